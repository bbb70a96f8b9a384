/* An ingress with its leases and batches over a transport in memory, and the actors' side of Join
 * and Play. Include it in one test. */
#ifndef ACORN_TESTS_INGRESS_FIXTURE_H
#define ACORN_TESTS_INGRESS_FIXTURE_H

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

static inline struct space space_of(int size) {
  return (struct space){
      .num_tensors = 1, .tensor = {{"state", DTYPE_FLOAT32, 1, {size}}}, .discrete = 2};
}

/* The same observations with an action of two numbers, one of them without bounds. */
static inline struct space box_space(void) {
  struct space space = space_of(4);
  space.discrete = 0;
  space.box = 2;
  space.low[0] = -0.5f, space.high[0] = 2;
  space.low[1] = -INFINITY, space.high[1] = INFINITY;
  return space;
}

static inline int create_for(void **state, const struct space *space, int deterministic_envs,
                             bool evaluate) {
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
                                   .space = *space,
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

static inline int create_with(void **state, int deterministic_envs, bool evaluate) {
  struct space space = space_of(4);
  return create_for(state, &space, deterministic_envs, evaluate);
}

static inline int create_box(void **state) {
  struct space space = box_space();
  return create_for(state, &space, 0, false);
}

static inline int create(void **state) {
  return create_with(state, 0, false);
}

static inline int create_deterministic(void **state) {
  return create_with(state, 2 * K, false);
}

static inline int create_evaluation(void **state) {
  return create_with(state, 0, true);
}

static inline int destroy(void **state) {
  struct fixture *f = *state;
  ingress_destroy(f->ingress);
  players_destroy(f->players);
  batcher_destroy(f->batcher);
  leases_destroy(f->leases);
  progress_destroy(f->progress);
  free(f);
  return 0;
}

static inline struct wire_join_request request_of(const char *name) {
  struct wire_join_request request = {.protocol = WIRE_PROTOCOL,
                                      .environment = "cartpole",
                                      .space = space_of(4),
                                      .num_environments = K,
                                      .role = WIRE_ROLE_TRAIN};
  snprintf(request.name, sizeof(request.name), "%s", name);
  return request;
}

static inline struct rpc_stream *send_join(struct fixture *f,
                                           const struct wire_join_request *request) {
  struct rpc_stream *stream = loopback_open(f->methods, f->num_methods, "/acorn.Acorn/Join");
  size_t size;
  uint8_t *bytes = wire_pack_join_request(request, &size);
  loopback_send(stream, bytes, size);
  free(bytes);
  return stream;
}

/* What a Join was answered with, which must be OK. */
static inline struct wire_join_reply reply_to(const struct rpc_stream *join) {
  assert_int_equal(join->code, RPC_OK);
  struct wire_join_reply reply;
  struct error error;
  assert_int_equal(wire_unpack_join_reply(&reply, join->answer, join->answer_bytes, &error),
                   STATUS_OK);
  return reply;
}

/* Joins and returns the reply. */
static inline struct wire_join_reply join_with(struct fixture *f,
                                               const struct wire_join_request *request) {
  struct rpc_stream *stream = send_join(f, request);
  struct wire_join_reply reply = reply_to(stream);
  loopback_free(stream);
  return reply;
}

static inline struct wire_join_reply join(struct fixture *f, const char *name) {
  struct wire_join_request request = request_of(name);
  return join_with(f, &request);
}

static inline struct wire_join_reply join_as_evaluator(struct fixture *f) {
  struct wire_join_request request = request_of("evaluator/0/0");
  request.role = WIRE_ROLE_EVAL;
  return join_with(f, &request);
}

/* A refused Join: the code, and a word of the sentence. */
static inline void join_refused(struct fixture *f, const struct wire_join_request *request,
                                enum rpc_code code, const char *word) {
  struct rpc_stream *stream = send_join(f, request);
  assert_int_equal(stream->code, code);
  assert_non_null(strstr(stream->text, word));
  loopback_free(stream);
}

static inline void send_steps(struct rpc_stream *stream, uint64_t run_id, const uint8_t flags[K],
                              float value, const struct wire_episode *episodes, int num_episodes) {
  uint8_t message[8192];
  const float reward[K] = {0, 0};
  size_t n = wire_encode_steps_header(message, sizeof(message), run_id, reward, flags, episodes,
                                      num_episodes, K, K * 16);
  for (int i = 0; i < K * 4; i++) memcpy(message + n + 4 * i, &value, 4);
  loopback_send(stream, message, n + K * 16);
}

static const uint8_t first[K] = {STEP_FIRST, STEP_FIRST};
static const uint8_t none[K] = {0, 0};

static inline struct rpc_stream *play(struct fixture *f, uint64_t run_id, float value) {
  struct rpc_stream *stream = loopback_open(f->methods, f->num_methods, "/acorn.Acorn/Play");
  send_steps(stream, run_id, first, value, NULL, 0);
  return stream;
}

/* Opens the stream of a lease without sending rows. */
static inline struct rpc_stream *bind_lease(struct fixture *f, uint64_t run_id) {
  struct rpc_stream *stream = loopback_open(f->methods, f->num_methods, "/acorn.Acorn/Play");
  uint8_t message[WIRE_RUN_ID_BYTES];
  loopback_send(stream, message, wire_encode_run_id(message, run_id));
  return stream;
}

/* Plays what was joined; the reply is used up. */
static inline struct rpc_stream *play_reply(struct fixture *f, struct wire_join_reply reply) {
  struct rpc_stream *stream = play(f, reply.run_id, 0);
  wire_join_reply_deinit(&reply);
  return stream;
}

/* Joins and sends the first steps. */
static inline struct rpc_stream *enter(struct fixture *f, const char *name) {
  return play_reply(f, join(f, name));
}

static inline struct row_batch *take(struct fixture *f) {
  int64_t deadline;
  return batcher_try_take(f->batcher, clock_now_us(), &deadline);
}

static inline void answer_bytes(struct fixture *f, struct row_batch *batch, const void *action,
                                size_t action_bytes) {
  batcher_stepping(f->batcher, batch, clock_now_us());
  reply_actions(batch, action, action_bytes);
  batcher_recycle(f->batcher, batch);
}

static inline void answer(struct fixture *f, struct row_batch *batch, const int32_t *action) {
  answer_bytes(f, batch, action, sizeof(int32_t));
}

static const int32_t zeros[2 * (TRAIN + EVAL)];

/* The batch that is ready, with action 0 for all rows. */
static inline void answer_next(struct fixture *f) {
  answer(f, take(f), zeros);
}

/* A step in which environment 1 of the stream ended an episode. */
static inline void send_episode(struct rpc_stream *stream, double episode_return, uint32_t length) {
  const uint8_t flags[K] = {0, STEP_FIRST | STEP_TERMINATED};
  const struct wire_episode episode = {
      .environment = 1, .episode_return = episode_return, .length = length};
  send_steps(stream, 0, flags, 0, &episode, 1);
}

#define WITH(create, test) cmocka_unit_test_setup_teardown(test, create, destroy)

#endif
