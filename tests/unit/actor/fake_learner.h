/* A learner of few lines behind the real transport, for the tests of actor/: it answers Joins and
 * Plays by a script, an act per Join, and remembers what it was sent. Its thread is its own; the
 * counters may be read at any time. */
#ifndef ACORN_TESTS_UNIT_ACTOR_FAKE_LEARNER_H
#define ACORN_TESTS_UNIT_ACTOR_FAKE_LEARNER_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/shared_rows.h"
#include "common/rpc/server.h"
#include "common/wire/wire.h"

enum { LEARNER_HOLD = -1, LEARNER_MAX_K = 8, LEARNER_MAX_ROW = 8192, LEARNER_RUN_ID = 77 };

/* What happens to one Join and to the stream that follows it. */
struct learner_act {
  enum rpc_code join; /* OK: a lease, unless join_text says something; else refused with the text */
  const char *join_text;
  int messages; /* answered before the stream ends; LEARNER_HOLD: the first is never answered */
  enum rpc_code end;
  const char *end_text;
  int lease_more; /* leases so many environments more than were asked for */
  /* answers a wish for shared memory, with a descriptor so many too high */
  bool shares;
  int other_file;
};

struct learner {
  const struct learner_act *act; /* the last one is repeated */
  int num_acts;
  struct rpc_server *server;
  pthread_t thread;
  char address[64];

  /* what it was sent */
  atomic_int joins, messages, held, gate; /* messages: those with rows */
  int64_t join_us[16];
  struct wire_join_request request;
  struct wire_layout layout;
  struct shared_rows shared;        /* of the last Join */
  uint64_t run_id[16];              /* per Join: what its stream was tied to */
  uint8_t flags[64][LEARNER_MAX_K]; /* per message */
  float reward[64][LEARNER_MAX_K];
  uint8_t observation[LEARNER_MAX_K * LEARNER_MAX_ROW]; /* of the last message, in row layout */
  struct wire_episode episodes[LEARNER_MAX_K];
  int num_episodes;     /* in all messages */
  size_t message_bytes; /* of the last message with rows */

  /* its thread's own */
  int stream_messages;
  struct rpc_stream *in_hand;
};

static struct learner learner;

/* Orders what the learner's thread writes and the test reads, before and after: the transport does
 * so too, but out of the thread sanitizer's sight. */
static inline void learner_sync(void) {
  atomic_fetch_add(&learner.gate, 1);
}

static inline const struct learner_act *learner_present_act(void) {
  int i = atomic_load(&learner.joins) - 1;
  return &learner.act[i < learner.num_acts ? i : learner.num_acts - 1];
}

static inline void learner_share(struct wire_join_reply *reply) {
  const struct learner_act *act = learner_present_act();
  shared_rows_deinit(&learner.shared);
  if (!act->shares || !learner.request.shared_rows) return;
  size_t bytes = learner.layout.wire_bytes * (size_t)learner.layout.num_environments;
  struct error error;
  if (shared_rows_create(&learner.shared, bytes, reply->run_id, &error) != STATUS_OK) abort();
  reply->shared_process = (uint32_t)getpid();
  reply->shared_file = (uint32_t)(learner.shared.file + act->other_file);
}

static inline void learner_lease(struct rpc_stream *stream, int more) {
  static uint64_t seed[LEARNER_MAX_K] = {500, 600, 700, 800};
  struct wire_join_reply reply = {.run_id = LEARNER_RUN_ID,
                                  .first_environment = 4,
                                  .num_environments = learner.request.num_environments + more,
                                  .environment_seed = seed,
                                  .episode_seed_stride = 1};
  learner_share(&reply);
  size_t bytes;
  uint8_t *packed = wire_pack_join_reply(&reply, &bytes);
  rpc_stream_finish(stream, RPC_OK, "", packed, bytes);
  free(packed);
}

static inline void learner_on_join(void *context, struct rpc_stream *stream,
                                   const struct wire_span *spans, int n) {
  (void)context;
  struct error error;
  learner_sync();
  assert_int_equal(n, 1);
  if (wire_unpack_join_request(&learner.request, spans[0].data, spans[0].bytes, &error) !=
      STATUS_OK)
    abort();
  wire_layout_of_space(&learner.layout, &learner.request.space, learner.request.num_environments);
  int joins = atomic_fetch_add(&learner.joins, 1);
  if (joins < 16) learner.join_us[joins] = clock_now_us();
  learner.stream_messages = 0;
  learner_sync();
  const struct learner_act *act = learner_present_act();
  if (act->join == RPC_OK && !act->join_text) {
    learner_lease(stream, act->lease_more);
  } else {
    rpc_stream_finish(stream, act->join, act->join_text, act->join == RPC_OK ? "" : NULL, 0);
  }
}

static inline void learner_note(const struct wire_span *spans, int n, int message) {
  float reward[LEARNER_MAX_K];
  uint8_t flags[LEARNER_MAX_K];
  struct wire_rows rows = {
      .observation = learner.observation,
      .reward = reward,
      .flags = flags,
      .episodes = learner.episodes,
      .max_episodes = LEARNER_MAX_K,
      .shared = learner.shared.data,
  };
  struct error error;
  if (wire_decode_steps(&rows, spans, n, &learner.layout, &error) != STATUS_OK) abort();
  learner.num_episodes += rows.num_episodes;
  if (message >= 64) return;
  memcpy(learner.reward[message], reward, sizeof(reward));
  memcpy(learner.flags[message], flags, sizeof(flags));
}

/* The first message of a stream only names the lease. */
static inline bool learner_binds(const struct wire_span *spans, int n) {
  uint64_t run_id;
  bool alone;
  if (wire_peek_run_id(&run_id, &alone, spans, n, NULL) != STATUS_OK) abort();
  int join = atomic_load(&learner.joins) - 1;
  if (alone && join < 16) learner.run_id[join] = run_id;
  return alone;
}

/* Actions 10, 11, 12, ... for environments 0, 1, 2, ... */
static inline void learner_on_steps(void *context, struct rpc_stream *stream,
                                    const struct wire_span *spans, int n) {
  (void)context;
  const struct learner_act *act = learner_present_act();
  learner_sync();
  if (learner_binds(spans, n)) {
    learner_sync();
    rpc_stream_reply(stream, "", 0, "", 0);
    return;
  }
  learner.message_bytes = 0;
  for (int i = 0; i < n; i++) learner.message_bytes += spans[i].bytes;
  learner_note(spans, n, atomic_load(&learner.messages));
  learner_sync();
  atomic_fetch_add(&learner.messages, 1);
  if (act->messages == LEARNER_HOLD) {
    learner.in_hand = stream;
    learner_sync();
    atomic_store(&learner.held, 1);
  } else if (learner.stream_messages++ == act->messages) {
    rpc_stream_finish(stream, act->end, act->end_text, NULL, 0);
  } else {
    int32_t actions[LEARNER_MAX_K] = {10, 11, 12, 13, 14, 15, 16, 17};
    uint8_t header[16];
    size_t bytes = 4 * (size_t)learner.layout.num_environments;
    rpc_stream_reply(stream, header, wire_encode_actions_header(header, bytes), actions, bytes);
  }
}

static inline void *learner_main(void *context) {
  (void)context;
  while (rpc_server_poll(learner.server, 0, clock_now_us() + 50000) >= 0) continue;
  return NULL;
}

/* Starts it on a fresh socket. */
static inline void learner_start(const struct learner_act *act, int num_acts) {
  static const struct rpc_method methods[] = {
      {.path = "/acorn.Acorn/Join", .on_message = learner_on_join},
      {.path = "/acorn.Acorn/Play", .on_message = learner_on_steps},
  };
  static int number;
  memset(&learner, 0, sizeof(learner));
  learner.act = act;
  learner.num_acts = num_acts;
  snprintf(learner.address, sizeof(learner.address), "unix:/tmp/acorn-actor-test-%d-%d",
           (int)getpid(), number++);
  struct rpc_server_config config = {.address = learner.address,
                                     .num_queues = 1,
                                     .methods = methods,
                                     .num_methods = 2,
                                     .max_message_bytes = 1 << 20};
  struct error error;
  if (rpc_server_create(&learner.server, &config, &error) != STATUS_OK) fail_msg("%s", error.text);
  pthread_create(&learner.thread, NULL, learner_main, NULL);
}

static inline void learner_stop(void) {
  rpc_server_shutdown(learner.server);
  learner_sync();
  if (learner.in_hand) rpc_stream_finish(learner.in_hand, RPC_UNAVAILABLE, "stopping", NULL, 0);
  rpc_server_cancel_all(learner.server);
  pthread_join(learner.thread, NULL);
  rpc_server_destroy(learner.server);
  shared_rows_deinit(&learner.shared);
}

/* Waits up to 5 s for a counter to reach a value. */
static inline void learner_wait_for(atomic_int *counter, int value) {
  for (int i = 0; i < 5000 && atomic_load(counter) < value; i++) clock_sleep_us(1000);
  assert_true(atomic_load(counter) >= value);
}

#endif
