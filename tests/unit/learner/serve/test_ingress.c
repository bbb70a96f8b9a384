/* Join, Play, Status and what goes wrong with them, over a transport in memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "learner/serve/ingress.h"
#include "learner/serve/reply.h"
#include "tests/unit/learner/serve/loopback.h"

enum { TRAIN = 8, EVAL = 4, K = 2 };

struct fixture {
  struct leases *leases;
  struct batcher *batcher;
  struct progress *progress;
  struct ingress *ingress;
  struct wire_status status;
  struct players *players;
  const struct rpc_method *methods;
  int num_methods;
};

static struct wire_space space_of(int size) {
  return (struct wire_space){
      .num_tensors = 1, .tensor = {{"state", WIRE_FLOAT32, 1, {size}}}, .discrete = 2};
}

static int create_with(void **state, int deterministic_envs, bool evaluate) {
  struct fixture *f = calloc(1, sizeof(*f));
  struct leases_config leases = {
      .max_train = TRAIN, .max_eval = EVAL, .seed = 5, .deterministic_envs = deterministic_envs};
  struct batcher_config batcher = {.max_clients = TRAIN + EVAL,
                                   .max_rows = 2 * (TRAIN + EVAL),
                                   .row_stride = 16,
                                   .max_wait_us = 1000000};
  struct progress_config progress = {.target_return = NAN,
                                     .max_kept = TRAIN,
                                     .quota_episodes = evaluate ? EVAL : 0,
                                     .quota_environments = evaluate ? EVAL : 0};
  struct ingress_config ingress = {.environment = "cartpole",
                                   .space = space_of(4),
                                   .num_train_slots = TRAIN,
                                   .num_queues = 1,
                                   .evaluate = evaluate,
                                   .deterministic = deterministic_envs > 0};
  f->leases = leases_create(&leases);
  f->batcher = batcher_create(&batcher);
  f->progress = progress_create(&progress);
  f->ingress = ingress_create(&ingress, f->leases, f->batcher, f->progress);
  f->players = players_create(f->leases, f->batcher);
  f->status = (struct wire_status){.environment = "cartpole", .state = "training"};
  ingress_set_status(f->ingress, &f->status, f->players);
  f->methods = ingress_methods(f->ingress, &f->num_methods);
  *state = f;
  return 0;
}

static int create(void **state) {
  return create_with(state, 0, false);
}

static int create_deterministic(void **state) {
  return create_with(state, 2 * K, false);
}

static int create_evaluation(void **state) {
  return create_with(state, 0, true);
}

static int destroy(void **state) {
  struct fixture *f = *state;
  ingress_destroy(f->ingress);
  players_destroy(f->players);
  batcher_destroy(f->batcher);
  leases_destroy(f->leases);
  progress_destroy(f->progress);
  free(f);
  return 0;
}

static struct wire_join_request request_of(const char *name) {
  struct wire_join_request request = {.protocol = WIRE_PROTOCOL,
                                      .environment = "cartpole",
                                      .space = space_of(4),
                                      .num_environments = K,
                                      .role = WIRE_ROLE_TRAIN};
  snprintf(request.name, sizeof(request.name), "%s", name);
  return request;
}

static struct rpc_stream *send_join(struct fixture *f, const struct wire_join_request *request) {
  struct rpc_stream *stream = loopback_open(f->methods, f->num_methods, "/acorn.Acorn/Join");
  size_t size;
  uint8_t *bytes = wire_pack_join_request(request, &size);
  loopback_send(stream, bytes, size);
  free(bytes);
  return stream;
}

/* Joins and returns the reply, which must be OK. */
static struct wire_join_reply join(struct fixture *f, const char *name) {
  struct wire_join_request request = request_of(name);
  struct rpc_stream *stream = send_join(f, &request);
  assert_int_equal(stream->code, RPC_OK);
  struct wire_join_reply reply;
  struct error error;
  assert_int_equal(wire_unpack_join_reply(&reply, stream->answer, stream->answer_bytes, &error),
                   STATUS_OK);
  loopback_free(stream);
  return reply;
}

/* A refused Join: the code, and a word of the sentence. */
static void join_refused(struct fixture *f, const struct wire_join_request *request,
                         enum rpc_code code, const char *word) {
  struct rpc_stream *stream = send_join(f, request);
  assert_int_equal(stream->code, code);
  assert_non_null(strstr(stream->text, word));
  loopback_free(stream);
}

static void send_steps(struct rpc_stream *stream, uint64_t run_id, const uint8_t flags[K],
                       float value, const struct wire_episode *episodes, int num_episodes) {
  struct wire_space space = space_of(4);
  struct wire_layout layout;
  wire_layout_of_space(&layout, &space, K);
  uint8_t message[1024];
  const float reward[K] = {0, 0};
  size_t n = wire_encode_steps_header(message, sizeof(message), run_id, reward, flags, episodes,
                                      num_episodes, &layout);
  for (int i = 0; i < K * 4; i++) memcpy(message + n + 4 * i, &value, 4);
  loopback_send(stream, message, n + K * 16);
}

static const uint8_t first[K] = {STEP_FIRST, STEP_FIRST};
static const uint8_t none[K] = {0, 0};

static struct rpc_stream *play(struct fixture *f, uint64_t run_id, float value) {
  struct rpc_stream *stream = loopback_open(f->methods, f->num_methods, "/acorn.Acorn/Play");
  send_steps(stream, run_id, first, value, NULL, 0);
  return stream;
}

static struct row_batch *take(struct fixture *f) {
  int64_t deadline;
  return batcher_try_take(f->batcher, clock_now_us(), &deadline);
}

static void answer(struct fixture *f, struct row_batch *batch, const int32_t *action) {
  batcher_stepping(f->batcher, batch, clock_now_us());
  reply_actions(batch, action, sizeof(int32_t));
  batcher_recycle(f->batcher, batch);
}

/* ---- */

static void a_step_goes_in_and_an_action_comes_back(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply reply = join(f, "actor/0/0");
  assert_int_equal(reply.num_environments, K);
  struct rpc_stream *stream = play(f, reply.run_id, 1.5f);
  struct row_batch *batch = take(f);
  assert_non_null(batch);
  assert_int_equal(batch->num_rows, K);
  assert_int_equal(batch->flags[1], STEP_FIRST);
  float x;
  memcpy(&x, batch->observation + 16 + 12, 4);
  assert_true(x == 1.5f);
  const int32_t action[K] = {1, 0};
  answer(f, batch, action);
  const uint8_t expected[] = {0x0a, 8, 1, 0, 0, 0, 0, 0, 0, 0};
  assert_int_equal(stream->answer_bytes, sizeof(expected));
  assert_memory_equal(stream->answer, expected, sizeof(expected));
  send_steps(stream, 0, none, 2, NULL, 0);
  batch = take(f);
  assert_non_null(batch);
  answer(f, batch, action);
  wire_join_reply_deinit(&reply);
  loopback_free(stream);
  assert_int_equal(leases_count(f->leases).players, 0);
}

static void joins_that_do_not_match_are_refused_with_both_values(void **state) {
  struct fixture *f = *state;
  struct wire_join_request request = request_of("actor/0/0");
  request.protocol = 99;
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "99");
  request = request_of("actor/0/0");
  snprintf(request.environment, sizeof(request.environment), "catch");
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "catch");
  request = request_of("actor/0/0");
  request.space = space_of(6);
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "6");
  request = request_of("actor/0/0");
  request.space.discrete = 3;
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "3");
  request = request_of("actor/0/0");
  request.num_environments = TRAIN + 1;
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "8 at most");
  struct wire_join_reply reply = join(f, "actor/1/0");
  request = request_of("actor/2/0");
  request.num_environments = TRAIN - 1;
  join_refused(f, &request, RPC_RESOURCE_EXHAUSTED, "no room");
  wire_join_reply_deinit(&reply);
  struct rpc_stream *stream = loopback_open(f->methods, f->num_methods, "/acorn.Acorn/Join");
  loopback_send(stream, "\xff\xff\xff\xff", 4);
  assert_int_equal(stream->code, RPC_INVALID_ARGUMENT);
  loopback_free(stream);
}

static void ids_are_the_lowest_free_and_come_back(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply a = join(f, "actor/0/0"), b = join(f, "actor/1/0");
  assert_int_equal(a.first_environment, 0);
  assert_int_equal(b.first_environment, K);
  struct rpc_stream *stream = play(f, a.run_id, 0);
  struct row_batch *batch = take(f);
  const int32_t action[K] = {0, 0};
  answer(f, batch, action);
  loopback_free(stream);
  struct wire_join_reply c = join(f, "actor/2/0");
  assert_int_equal(c.first_environment, 0);
  assert_true(c.run_id != a.run_id);
  assert_true(c.environment_seed[0] != a.environment_seed[0]); /* another life, another seed */
  wire_join_reply_deinit(&a), wire_join_reply_deinit(&b), wire_join_reply_deinit(&c);
}

static void evaluators_get_ids_behind_the_trainers(void **state) {
  struct fixture *f = *state;
  struct wire_join_request request = request_of("evaluator/0/0");
  request.role = WIRE_ROLE_EVAL;
  struct rpc_stream *stream = send_join(f, &request);
  struct wire_join_reply reply;
  struct error error;
  assert_int_equal(wire_unpack_join_reply(&reply, stream->answer, stream->answer_bytes, &error),
                   STATUS_OK);
  assert_int_equal(reply.first_environment, TRAIN);
  wire_join_reply_deinit(&reply);
  loopback_free(stream);
}

static void a_second_join_supersedes_the_first(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply a = join(f, "actor/0/0");
  struct rpc_stream *old = play(f, a.run_id, 0);
  struct wire_join_reply b = join(f, "actor/0/0");
  assert_true(old->cancelled);
  assert_int_equal(b.first_environment, a.first_environment);
  loopback_close(old);
  struct rpc_stream *new = play(f, b.run_id, 0);
  struct row_batch *batch = take(f);
  assert_int_equal(batch->num_segments, 2);
  assert_true(batch->segment[0].dead);
  assert_false(batch->segment[1].dead);
  assert_true(batch->segment[1].life > batch->segment[0].life);
  const int32_t action[3 * K] = {0};
  answer(f, batch, action);
  assert_int_equal(leases_count(f->leases).players, 1);
  loopback_free(old);
  loopback_free(new);
  wire_join_reply_deinit(&a), wire_join_reply_deinit(&b);
}

static void a_run_id_is_good_for_one_stream(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply reply = join(f, "actor/0/0");
  struct rpc_stream *stream = play(f, reply.run_id, 0);
  struct rpc_stream *twin = play(f, reply.run_id, 0);
  assert_true(twin->finished);
  assert_int_equal(twin->code, RPC_UNAVAILABLE);
  struct rpc_stream *stranger = play(f, 12345, 0);
  assert_int_equal(stranger->code, RPC_UNAVAILABLE);
  assert_non_null(strstr(stranger->text, "Join again"));
  loopback_free(twin);
  loopback_free(stranger);
  const int32_t action[K] = {0};
  answer(f, take(f), action);
  loopback_free(stream);
  wire_join_reply_deinit(&reply);
}

static void a_lease_without_play_expires(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply reply = join(f, "actor/0/0");
  leases_expire(f->leases, clock_now_us() + LEASE_PLAY_WAIT_US - 1000000);
  assert_int_equal(leases_count(f->leases).players, 1);
  leases_expire(f->leases, clock_now_us() + LEASE_PLAY_WAIT_US + 1000000);
  assert_int_equal(leases_count(f->leases).players, 0);
  struct rpc_stream *stream = play(f, reply.run_id, 0);
  assert_int_equal(stream->code, RPC_UNAVAILABLE);
  loopback_free(stream);
  wire_join_reply_deinit(&reply);
}

static void a_bad_message_ends_its_own_stream_only(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply a = join(f, "actor/0/0"), b = join(f, "actor/1/0");
  struct rpc_stream *good = play(f, a.run_id, 1), *bad = play(f, b.run_id, NAN);
  assert_int_equal(bad->code, RPC_INVALID_ARGUMENT);
  assert_non_null(strstr(bad->text, "observation 'state'"));
  loopback_free(bad);
  struct row_batch *batch = take(f);
  const int32_t action[2 * K] = {1, 1, 0, 0};
  answer(f, batch, action);
  assert_int_equal(good->replies, 1);
  /* and a message that breaks the rules of a step */
  send_steps(good, 0, first, 0, NULL, 0);
  assert_int_equal(good->code, RPC_INVALID_ARGUMENT);
  loopback_free(good);
  wire_join_reply_deinit(&a), wire_join_reply_deinit(&b);
}

/* Actors that die with their rows queued leave them in the batch. When it is full of them, a new
 * message is told to come back, and everything is well again once the batch has run. */
static void a_batch_full_of_dead_rows_is_unavailable(void **state) {
  struct fixture *f = *state;
  enum { FULL = 2 * (TRAIN + EVAL) / K };
  struct rpc_stream *dead[FULL];
  for (int i = 0; i < FULL; i++) {
    struct wire_join_reply reply = join(f, "actor/0/0");
    dead[i] = play(f, reply.run_id, 0);
    assert_true(dead[i]->in_hand);
    loopback_close(dead[i]);
    wire_join_reply_deinit(&reply);
  }
  struct wire_join_reply reply = join(f, "actor/0/0");
  struct rpc_stream *turned_away = play(f, reply.run_id, 0);
  assert_true(turned_away->finished);
  assert_int_equal(turned_away->code, RPC_UNAVAILABLE);
  assert_non_null(strstr(turned_away->text, "dead actors' rows"));
  loopback_free(turned_away);
  wire_join_reply_deinit(&reply);

  static const int32_t action[2 * (TRAIN + EVAL)];
  struct row_batch *batch = take(f);
  assert_int_equal(batch->num_segments, FULL);
  for (int i = 0; i < FULL; i++) assert_true(batch->segment[i].dead);
  answer(f, batch, action);
  for (int i = 0; i < FULL; i++) loopback_free(dead[i]);
  reply = join(f, "actor/0/0");
  struct rpc_stream *welcome = play(f, reply.run_id, 0);
  answer(f, take(f), action);
  assert_int_equal(welcome->replies, 1);
  loopback_free(welcome);
  wire_join_reply_deinit(&reply);
}

static void refusals_are_counted_by_their_kind(void **state) {
  struct fixture *f = *state;
  struct wire_join_request request = request_of("actor/0/0");
  request.protocol = 99;
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "99");
  struct wire_join_reply a = join(f, "actor/0/0"), b = join(f, "actor/1/0");
  loopback_free(play(f, 12345, 0));
  loopback_free(play(f, a.run_id, NAN));
  struct rpc_stream *stream = play(f, b.run_id, 0);
  static const int32_t action[2 * K]; /* the refused message's rows are in the batch, dead */
  answer(f, take(f), action);
  send_steps(stream, 0, first, 0, NULL, 0);
  loopback_free(stream);
  for (int kind = 0; kind < REFUSAL_KINDS; kind++)
    assert_int_equal(ingress_refused(f->ingress, (enum refusal)kind), 1);
  wire_join_reply_deinit(&a), wire_join_reply_deinit(&b);
}

static void episodes_are_reported(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply reply = join(f, "actor/0/0");
  struct rpc_stream *stream = play(f, reply.run_id, 0);
  const int32_t action[K] = {0};
  answer(f, take(f), action);
  const uint8_t flags[K] = {0, STEP_FIRST | STEP_TERMINATED};
  const struct wire_episode episode = {.environment = 1, .episode_return = 42, .length = 17};
  send_steps(stream, 0, flags, 0, &episode, 1);
  answer(f, take(f), action);
  assert_true(progress_returns(f->progress, false).mean == 42);
  assert_true(progress_returns(f->progress, false).length_mean == 17);
  loopback_free(stream);
  wire_join_reply_deinit(&reply);
}

/* A step in which environment 1 of the stream ended an episode. */
static void send_episode(struct rpc_stream *stream, double episode_return) {
  const uint8_t flags[K] = {0, STEP_FIRST | STEP_TERMINATED};
  const struct wire_episode episode = {
      .environment = 1, .episode_return = episode_return, .length = 3};
  send_steps(stream, 0, flags, 0, &episode, 1);
}

static struct wire_join_reply join_as_evaluator(struct fixture *f) {
  struct wire_join_request request = request_of("evaluator/0/0");
  request.role = WIRE_ROLE_EVAL;
  struct rpc_stream *stream = send_join(f, &request);
  struct wire_join_reply reply;
  struct error error;
  assert_int_equal(wire_unpack_join_reply(&reply, stream->answer, stream->answer_bytes, &error),
                   STATUS_OK);
  loopback_free(stream);
  return reply;
}

/* Nobody waits for an evaluator in a training run; in an evaluation they are all there is. */
static void who_is_waited_for(struct fixture *f, int live_rows) {
  struct wire_join_reply reply = join_as_evaluator(f);
  struct rpc_stream *stream = play(f, reply.run_id, 0);
  assert_int_equal(batcher_counts(f->batcher).live_rows, live_rows);
  const int32_t action[K] = {0};
  ingress_stop(f->ingress, RPC_OK, "done");
  struct row_batch *rest = batcher_take_rest(f->batcher);
  answer(f, rest, action);
  loopback_free(stream);
  wire_join_reply_deinit(&reply);
}

static void evaluators_of_a_training_run_are_not_live(void **state) {
  who_is_waited_for(*state, 0);
}

static void those_of_an_evaluation_are(void **state) {
  who_is_waited_for(*state, K);
}

static void episodes_of_evaluators_are_counted_apart(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply a = join(f, "actor/0/0"), e = join_as_evaluator(f);
  struct rpc_stream *actor = play(f, a.run_id, 0), *evaluator = play(f, e.run_id, 0);
  const int32_t action[3 * K] = {0};
  answer(f, take(f), action);
  send_episode(evaluator, 7);
  send_episode(actor, 5);
  answer(f, take(f), action);
  assert_true(progress_returns(f->progress, true).mean == 7);
  assert_true(progress_returns(f->progress, false).mean == 5);
  loopback_free(actor);
  loopback_free(evaluator);
  wire_join_reply_deinit(&a), wire_join_reply_deinit(&e);
}

/* Its environments are counted from the first evaluation id: each has its share of the episodes. */
static void episodes_of_an_evaluation_count_for_their_environment(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply reply = join_as_evaluator(f);
  struct rpc_stream *stream = play(f, reply.run_id, 0);
  const int32_t action[K] = {0};
  for (int i = 0; i < 2; i++) {
    answer(f, take(f), action);
    send_episode(stream, 7 + i);
  }
  answer(f, take(f), action);
  assert_int_equal(progress_returns(f->progress, true).count, 1); /* of 4, one is environment 1's */
  assert_true(progress_returns(f->progress, true).mean == 7);
  loopback_free(stream);
  wire_join_reply_deinit(&reply);
}

/* Deterministic: kept by environment until the batch runs, evaluators' counted at once. A later
 * environment whose message came first is still the later one. */
static void deterministic_episodes_wait_for_their_batch(void **state) {
  struct fixture *f = *state;
  struct wire_join_request request[2] = {request_of("actor/0/0"), request_of("actor/1/0")};
  struct rpc_stream *joins[2], *stream[2];
  for (int i = 0; i < 2; i++) joins[i] = send_join(f, &request[i]);
  for (int i = 0; i < 2; i++) {
    struct wire_join_reply reply;
    struct error error;
    assert_int_equal(
        wire_unpack_join_reply(&reply, joins[i]->answer, joins[i]->answer_bytes, &error),
        STATUS_OK);
    stream[i] = play(f, reply.run_id, 0);
    wire_join_reply_deinit(&reply);
    loopback_free(joins[i]);
  }
  const int32_t action[3 * K] = {0};
  answer(f, take(f), action);
  const uint8_t both[K] = {STEP_FIRST | STEP_TERMINATED, STEP_FIRST | STEP_TERMINATED};
  for (int i = 1; i >= 0; i--) {
    const struct wire_episode episodes[K] = {
        {.episode_return = 2 * i, .length = 3},
        {.environment = 1, .episode_return = 2 * i + 1, .length = 3}};
    send_steps(stream[i], 0, both, 0, episodes, K);
  }
  struct wire_join_reply e = join_as_evaluator(f);
  struct rpc_stream *evaluator = play(f, e.run_id, 0);
  answer(f, take(f), action);
  send_episode(evaluator, 9);
  assert_true(progress_returns(f->progress, true).mean == 9);
  assert_int_equal(progress_episodes(f->progress), 0);
  progress_count_kept(f->progress);
  double returns[PROGRESS_WINDOW];
  assert_int_equal(progress_last_returns(f->progress, false, returns), 2 * K);
  for (int i = 0; i < 2 * K; i++) assert_true(returns[i] == i);
  for (int i = 0; i < 2; i++) send_steps(stream[i], 0, none, 0, NULL, 0);
  answer(f, take(f), action);
  for (int i = 0; i < 2; i++) loopback_free(stream[i]);
  loopback_free(evaluator);
  wire_join_reply_deinit(&e);
}

/* Who leaves a run is missed; who leaves one that stops is not. */
static void who_leaves_before_the_stop_is_missed(void **state) {
  struct fixture *f = *state;
  const int32_t action[3 * K] = {0};
  struct wire_join_reply a = join(f, "actor/0/0"), b = join(f, "actor/1/0");
  struct rpc_stream *early = play(f, a.run_id, 0), *late = play(f, b.run_id, 0);
  answer(f, take(f), action);
  loopback_free(early);
  assert_int_equal(leases_count(f->leases).absent, 1);
  ingress_stop(f->ingress, RPC_OK, "done");
  loopback_free(late);
  assert_int_equal(leases_count(f->leases).absent, 1);
  wire_join_reply_deinit(&a), wire_join_reply_deinit(&b);
}

static void after_stop_everyone_is_sent_home(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply reply = join(f, "actor/0/0");
  struct rpc_stream *stream = play(f, reply.run_id, 0);
  ingress_stop(f->ingress, RPC_OK, "training done");
  struct row_batch *rest = batcher_take_rest(f->batcher);
  ingress_send_home(f->ingress, rest);
  batcher_recycle(f->batcher, rest);
  assert_true(stream->finished);
  assert_int_equal(stream->code, RPC_OK);
  struct wire_join_request request = request_of("actor/9/0");
  struct rpc_stream *late = send_join(f, &request);
  assert_int_equal(late->code, RPC_OK);
  assert_string_equal(late->text, "training done");
  loopback_free(late);
  loopback_free(stream);
  wire_join_reply_deinit(&reply);
}

static struct wire_status ask_status(struct fixture *f) {
  struct rpc_stream *stream = loopback_open(f->methods, f->num_methods, "/acorn.Acorn/Status");
  loopback_send(stream, "", 0);
  assert_int_equal(stream->code, RPC_OK);
  struct wire_status status;
  struct error error;
  assert_int_equal(wire_unpack_status(&status, stream->answer, stream->answer_bytes, &error),
                   STATUS_OK);
  loopback_free(stream);
  return status;
}

static void status_shows_the_run_and_its_players(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply a = join(f, "actor/0/0"), b = join(f, "actor/1/0");
  struct rpc_stream *stream = play(f, a.run_id, 0);
  struct wire_status status = ask_status(f);
  assert_string_equal(status.environment, "cartpole");
  assert_string_equal(status.state, "training");
  assert_int_equal(status.train_environments, 2 * K);
  assert_int_equal(status.eval_environments, 0);
  assert_int_equal(status.num_players, 2);
  assert_string_equal(status.players[0].name, "actor/0/0");
  assert_string_equal(status.players[0].state, "queued");
  assert_int_equal(status.players[0].steps, K);
  assert_string_equal(status.players[1].state, "joined");
  wire_status_deinit(&status);
  ingress_stop(f->ingress, RPC_OK, "training done");
  status = ask_status(f);
  assert_string_equal(status.state, "stopping");
  wire_status_deinit(&status);
  const int32_t action[K] = {0};
  answer(f, take(f), action);
  loopback_free(stream);
  wire_join_reply_deinit(&a), wire_join_reply_deinit(&b);
}

static void health_answers(void **state) {
  struct fixture *f = *state;
  struct rpc_stream *stream =
      loopback_open(f->methods, f->num_methods, "/grpc.health.v1.Health/Check");
  loopback_send(stream, "", 0);
  assert_memory_equal(stream->answer, "\x08\x01", 2);
  loopback_free(stream);
}

/* Whoever comes first, the ids follow the names. */
static void deterministic_joins_are_ordered_by_name(void **state) {
  struct fixture *f = *state;
  struct wire_join_request late = request_of("actor/10/0"), early = request_of("actor/2/0");
  struct rpc_stream *a = send_join(f, &late);
  assert_true(a->in_hand);
  struct rpc_stream *b = send_join(f, &early);
  struct wire_join_reply reply_a, reply_b;
  struct error error;
  assert_int_equal(wire_unpack_join_reply(&reply_a, a->answer, a->answer_bytes, &error), STATUS_OK);
  assert_int_equal(wire_unpack_join_reply(&reply_b, b->answer, b->answer_bytes, &error), STATUS_OK);
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
  struct wire_join_reply reply;
  struct error error;
  assert_int_equal(wire_unpack_join_reply(&reply, back->answer, back->answer_bytes, &error),
                   STATUS_OK);
  assert_int_equal(reply.first_environment, 0);
  wire_join_reply_deinit(&reply);
  loopback_free(gone);
  loopback_free(waits);
  loopback_free(back);
}

int main(void) {
  log_init("test", LOG_ERROR);
#define WITH(test) cmocka_unit_test_setup_teardown(test, create, destroy)
  const struct CMUnitTest tests[] = {
      WITH(a_step_goes_in_and_an_action_comes_back),
      WITH(joins_that_do_not_match_are_refused_with_both_values),
      WITH(ids_are_the_lowest_free_and_come_back),
      WITH(evaluators_get_ids_behind_the_trainers),
      WITH(a_second_join_supersedes_the_first),
      WITH(a_run_id_is_good_for_one_stream),
      WITH(a_lease_without_play_expires),
      WITH(a_bad_message_ends_its_own_stream_only),
      WITH(a_batch_full_of_dead_rows_is_unavailable),
      WITH(refusals_are_counted_by_their_kind),
      WITH(episodes_are_reported),
      WITH(after_stop_everyone_is_sent_home),
      WITH(evaluators_of_a_training_run_are_not_live),
      WITH(episodes_of_evaluators_are_counted_apart),
      WITH(who_leaves_before_the_stop_is_missed),
      cmocka_unit_test_setup_teardown(those_of_an_evaluation_are, create_evaluation, destroy),
      cmocka_unit_test_setup_teardown(episodes_of_an_evaluation_count_for_their_environment,
                                      create_evaluation, destroy),
      cmocka_unit_test_setup_teardown(deterministic_episodes_wait_for_their_batch,
                                      create_deterministic, destroy),
      WITH(status_shows_the_run_and_its_players),
      WITH(health_answers),
      cmocka_unit_test_setup_teardown(deterministic_joins_are_ordered_by_name, create_deterministic,
                                      destroy),
      cmocka_unit_test_setup_teardown(deterministic_joins_are_collected_once, create_deterministic,
                                      destroy),
      cmocka_unit_test_setup_teardown(a_waiting_join_goes_with_its_peer, create_deterministic,
                                      destroy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
