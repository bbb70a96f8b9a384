/* Joins and episodes of a deterministic run: whoever comes first, the order is the same. */
#include <pthread.h>

#include "tests/unit/learner/serve/ingress_fixture.h"

/* Whoever comes first, the ids follow the names. */
static void deterministic_joins_are_ordered_by_name(void **state) {
  struct fixture *f = *state;
  struct wire_join_request late = request_of("actor/10/0"), early = request_of("actor/2/0");
  struct rpc_stream *a = send_join(f, &late);
  assert_true(a->in_hand);
  struct rpc_stream *b = send_join(f, &early);
  struct wire_join_reply reply_a = reply_to(a), reply_b = reply_to(b);
  assert_int_equal(reply_b.first_environment, 0);
  assert_int_equal(reply_a.first_environment, K);
  wire_join_reply_deinit(&reply_a), wire_join_reply_deinit(&reply_b);
  loopback_free(a);
  loopback_free(b);
}

/* An actor that lost patience and asks again, or goes, is not counted twice. */
static void deterministic_joins_are_collected_once(void **state) {
  struct fixture *f = *state;
  struct wire_join_request one = request_of("actor/0/0"), two = request_of("actor/1/0");
  struct rpc_stream *impatient = send_join(f, &one), *gone = NULL;
  struct rpc_stream *again = send_join(f, &one);
  assert_true(impatient->finished);
  assert_true(again->in_hand);
  gone = send_join(f, &two);
  assert_int_equal(again->code, RPC_OK);
  assert_false(again->in_hand);
  assert_int_equal(leases_count(f->leases).train_envs, 2 * K);
  loopback_free(impatient);
  loopback_free(again);
  loopback_free(gone);
}

static void a_waiting_join_goes_with_its_peer(void **state) {
  struct fixture *f = *state;
  struct wire_join_request one = request_of("actor/0/0"), two = request_of("actor/1/0");
  struct rpc_stream *gone = send_join(f, &one);
  loopback_close(gone);
  assert_false(gone->in_hand);
  struct rpc_stream *waits = send_join(f, &two);
  assert_true(waits->in_hand);
  struct rpc_stream *back = send_join(f, &one);
  struct wire_join_reply reply = reply_to(back);
  assert_int_equal(reply.first_environment, 0);
  wire_join_reply_deinit(&reply);
  loopback_free(gone);
  loopback_free(waits);
  loopback_free(back);
}

static void *stop_the_learner(void *argument) {
  const struct fixture *f = argument;
  ingress_stop(f->ingress, RPC_UNAVAILABLE, "the learner is stopping");
  return NULL;
}

/* However close they come: before the stop, while it looks for those that wait, behind it. */
static void a_join_beside_the_stop_is_answered(void **state) {
  for (int i = 0; i < 3000; i++) {
    create_deterministic(state);
    struct fixture *f = *state;
    struct wire_join_request one = request_of("actor/0/0");
    pthread_t stop;
    assert_int_equal(pthread_create(&stop, NULL, stop_the_learner, f), 0);
    for (volatile int pause = i * 7 % 20000; pause > 0; pause--) continue;
    struct rpc_stream *stream = send_join(f, &one);
    pthread_join(stop, NULL);
    assert_false(stream->in_hand);
    assert_true(stream->finished);
    assert_int_equal(stream->code, RPC_UNAVAILABLE);
    loopback_free(stream);
    destroy(state);
  }
}

/* Deterministic: kept by environment until the batch runs, evaluators' counted at once. A later
 * environment whose message came first is still the later one. */
static void deterministic_episodes_wait_for_their_batch(void **state) {
  struct fixture *f = *state;
  struct wire_join_request request[2] = {request_of("actor/0/0"), request_of("actor/1/0")};
  struct rpc_stream *joins[2], *stream[2];
  for (int i = 0; i < 2; i++) joins[i] = send_join(f, &request[i]);
  for (int i = 0; i < 2; i++) {
    stream[i] = play_reply(f, reply_to(joins[i]));
    loopback_free(joins[i]);
  }
  answer_next(f);
  const uint8_t both[K] = {STEP_FIRST | STEP_TERMINATED, STEP_FIRST | STEP_TERMINATED};
  for (int i = 1; i >= 0; i--) {
    const struct wire_episode episodes[K] = {
        {.episode_return = 2 * i, .length = 3},
        {.environment = 1, .episode_return = 2 * i + 1, .length = 3}};
    send_steps(stream[i], 0, both, 0, episodes, K);
  }
  struct rpc_stream *evaluator = play_reply(f, join_as_evaluator(f));
  answer_next(f);
  send_episode(evaluator, 9, 3);
  assert_true(progress_returns(f->progress, true).mean == 9);
  assert_int_equal(progress_episodes(f->progress), 0);
  progress_count_kept(f->progress);
  double returns[PROGRESS_WINDOW];
  assert_int_equal(progress_last_returns(f->progress, false, returns), 2 * K);
  for (int i = 0; i < 2 * K; i++) assert_true(returns[i] == i);
  for (int i = 0; i < 2; i++) send_steps(stream[i], 0, none, 0, NULL, 0);
  answer_next(f);
  for (int i = 0; i < 2; i++) loopback_free(stream[i]);
  loopback_free(evaluator);
}

int main(void) {
  log_init("test", LOG_ERROR);
  const struct CMUnitTest tests[] = {
      WITH(create_deterministic, deterministic_joins_are_ordered_by_name),
      WITH(create_deterministic, deterministic_joins_are_collected_once),
      WITH(create_deterministic, a_waiting_join_goes_with_its_peer),
      cmocka_unit_test(a_join_beside_the_stop_is_answered),
      WITH(create_deterministic, deterministic_episodes_wait_for_their_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
