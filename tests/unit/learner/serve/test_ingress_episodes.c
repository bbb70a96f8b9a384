/* Episodes that actors and evaluators report, and who of them is waited for. */
#include "tests/unit/learner/serve/ingress_fixture.h"

static void episodes_are_reported(void **state) {
  struct fixture *f = *state;
  struct rpc_stream *stream = enter(f, "actor/0/0");
  answer_next(f);
  send_episode(stream, 42, 17);
  answer_next(f);
  assert_true(progress_returns(f->progress, false).mean == 42);
  assert_true(progress_returns(f->progress, false).length_mean == 17);
  loopback_free(stream);
}

/* Nobody waits for an evaluator in a training run; in an evaluation they are all there is. */
static void who_is_waited_for(struct fixture *f, int live_rows) {
  struct rpc_stream *stream = play_reply(f, join_as_evaluator(f));
  assert_int_equal(batcher_counts(f->batcher).live_rows, live_rows);
  ingress_stop(f->ingress, RPC_OK, "done");
  answer(f, batcher_take_rest(f->batcher), zeros);
  loopback_free(stream);
}

static void evaluators_of_a_training_run_are_not_live(void **state) {
  who_is_waited_for(*state, 0);
}

static void those_of_an_evaluation_are(void **state) {
  who_is_waited_for(*state, K);
}

static void episodes_of_evaluators_are_counted_apart(void **state) {
  struct fixture *f = *state;
  struct rpc_stream *actor = enter(f, "actor/0/0");
  struct rpc_stream *evaluator = play_reply(f, join_as_evaluator(f));
  answer_next(f);
  send_episode(evaluator, 7, 3);
  send_episode(actor, 5, 3);
  answer_next(f);
  assert_true(progress_returns(f->progress, true).mean == 7);
  assert_true(progress_returns(f->progress, false).mean == 5);
  loopback_free(actor);
  loopback_free(evaluator);
}

/* Its environments are counted from the first evaluation id: each has its share of the episodes. */
static void episodes_of_an_evaluation_count_for_their_environment(void **state) {
  struct fixture *f = *state;
  struct rpc_stream *stream = play_reply(f, join_as_evaluator(f));
  for (int i = 0; i < 2; i++) {
    answer_next(f);
    send_episode(stream, 7 + i, 3);
  }
  answer_next(f);
  assert_int_equal(progress_returns(f->progress, true).count, 1); /* of 4, one is environment 1's */
  assert_true(progress_returns(f->progress, true).mean == 7);
  loopback_free(stream);
}

int main(void) {
  log_init("test", LOG_ERROR);
  const struct CMUnitTest tests[] = {
      WITH(create, episodes_are_reported),
      WITH(create, evaluators_of_a_training_run_are_not_live),
      WITH(create_evaluation, those_of_an_evaluation_are),
      WITH(create, episodes_of_evaluators_are_counted_apart),
      WITH(create_evaluation, episodes_of_an_evaluation_count_for_their_environment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
