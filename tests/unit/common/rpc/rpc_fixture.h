/* A server on threads of its own with methods that misbehave in every way a test needs, and a
 * thread that answers what they leave open. */
#ifndef ACORN_TESTS_RPC_FIXTURE_H
#define ACORN_TESTS_RPC_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/rpc/client.h"
#include "common/rpc/server.h"

enum {
  FIXTURE_MAX_QUEUES = 2,
  FIXTURE_MAX_HELD = 64,
  FIXTURE_MESSAGE_BYTES = 20 << 20,
  FIXTURE_METHODS = 11
};

/* What the answering thread does with a message that it was handed. */
enum fixture_answer { ANSWER_REPLY, ANSWER_FINISH, ANSWER_CANCEL };

struct fixture {
  struct rpc_server *server;
  struct rpc_method methods[FIXTURE_METHODS];
  pthread_t threads[FIXTURE_MAX_QUEUES];
  pthread_t thread_ids[FIXTURE_MAX_QUEUES]; /* as the threads themselves know them */
  int num_queues;
  char address[128];
  atomic_int opened, messages, closed, wrong_thread;

  pthread_mutex_t lock; /* guards the three below */
  pthread_cond_t changed;
  struct rpc_stream *held[FIXTURE_MAX_HELD];
  int num_held;
};

struct fixture_worker {
  struct fixture *fixture;
  int queue;
};

/* ---- methods */

static inline void fixture_check_thread(struct fixture *f, struct rpc_stream *stream) {
  if (!pthread_equal(f->thread_ids[rpc_stream_queue(stream)], pthread_self()))
    atomic_fetch_add(&f->wrong_thread, 1);
}

static inline void fixture_opened(void *context, struct rpc_stream *stream) {
  struct fixture *f = context;
  atomic_fetch_add(&f->opened, 1);
  fixture_check_thread(f, stream);
  if (rpc_stream_user(stream)) abort();
  rpc_stream_set_user(stream, f);
}

static inline void fixture_closed(void *context, struct rpc_stream *stream) {
  struct fixture *f = context;
  fixture_check_thread(f, stream);
  if (rpc_stream_user(stream) != f) abort();
  atomic_fetch_add(&f->closed, 1);
}

static uint8_t *fixture_gather(const struct wire_span *spans, int n, size_t *bytes) {
  *bytes = 0;
  for (int i = 0; i < n; i++) *bytes += spans[i].bytes;
  uint8_t *all = malloc(*bytes + 1), *to = all;
  for (int i = 0; i < n; i++) {
    if (spans[i].bytes > 0) memcpy(to, spans[i].data, spans[i].bytes);
    to += spans[i].bytes;
  }
  return all;
}

static inline void fixture_echo(void *context, struct rpc_stream *stream,
                                const struct wire_span *spans, int n) {
  struct fixture *f = context;
  atomic_fetch_add(&f->messages, 1);
  fixture_check_thread(f, stream);
  size_t bytes;
  uint8_t *all = fixture_gather(spans, n, &bytes);
  size_t head = bytes / 3; /* in two parts, as header and payload */
  rpc_stream_reply(stream, all, head, all + head, bytes - head);
  free(all);
}

static inline void fixture_hurry(void *context, struct rpc_stream *stream,
                                 const struct wire_span *spans, int n) {
  rpc_stream_hurry(stream);
  fixture_echo(context, stream, spans, n);
}

static inline void fixture_unary(void *context, struct rpc_stream *stream,
                                 const struct wire_span *spans, int n) {
  struct fixture *f = context;
  atomic_fetch_add(&f->messages, 1);
  size_t bytes;
  uint8_t *all = fixture_gather(spans, n, &bytes);
  rpc_stream_finish(stream, RPC_OK, "", all, bytes);
  free(all);
}

static inline void fixture_slow(void *context, struct rpc_stream *stream,
                                const struct wire_span *spans, int n) {
  (void)context, (void)spans, (void)n;
  clock_sleep_us(2000000);
  rpc_stream_finish(stream, RPC_OK, "", "x", 1);
}

static inline void fixture_refuse(void *context, struct rpc_stream *stream,
                                  const struct wire_span *spans, int n) {
  (void)context, (void)spans, (void)n;
  rpc_stream_finish(stream, RPC_INVALID_ARGUMENT, "row 3 is bad: 100% wrong\nand \"quoted\"", NULL,
                    0);
}

static inline void fixture_done(void *context, struct rpc_stream *stream,
                                const struct wire_span *spans, int n) {
  (void)context, (void)spans, (void)n;
  rpc_stream_finish(stream, RPC_OK, "training done", NULL, 0);
}

static inline void fixture_hold(void *context, struct rpc_stream *stream,
                                const struct wire_span *spans, int n) {
  struct fixture *f = context;
  (void)spans, (void)n;
  pthread_mutex_lock(&f->lock);
  if (f->num_held == FIXTURE_MAX_HELD) abort();
  f->held[f->num_held++] = stream;
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->lock);
}

/* The same, but the application keeps a reference of its own. */
static inline void fixture_hold_referenced(void *context, struct rpc_stream *stream,
                                           const struct wire_span *spans, int n) {
  rpc_stream_ref(stream);
  fixture_hold(context, stream, spans, n);
}

static inline struct rpc_stream *fixture_take_held(struct fixture *f) {
  pthread_mutex_lock(&f->lock);
  while (f->num_held == 0) pthread_cond_wait(&f->changed, &f->lock);
  struct rpc_stream *stream = f->held[--f->num_held];
  pthread_mutex_unlock(&f->lock);
  return stream;
}

/* ---- life */

static inline void *fixture_thread(void *argument) {
  struct fixture_worker *worker = argument;
  struct fixture *f = worker->fixture;
  f->thread_ids[worker->queue] = pthread_self();
  while (rpc_server_poll(f->server, worker->queue, clock_now_us() + 100000) >= 0) continue;
  free(worker);
  return NULL;
}

static inline void fixture_create_from(struct fixture *f, struct rpc_server_config config) {
  memset(f, 0, sizeof(*f));
  pthread_mutex_init(&f->lock, NULL);
  pthread_cond_init(&f->changed, NULL);
  static const struct rpc_method methods[FIXTURE_METHODS] = {
      {"/test/Echo", NULL, fixture_opened, fixture_echo, fixture_closed, false, false},
      {"/test/Unary", NULL, fixture_opened, fixture_unary, fixture_closed, false, false},
      {"/test/Refuse", NULL, fixture_opened, fixture_refuse, fixture_closed, false, false},
      {"/test/Done", NULL, fixture_opened, fixture_done, fixture_closed, false, false},
      {"/test/Hold", NULL, fixture_opened, fixture_hold, fixture_closed, false, false},
      {"/test/HoldReferenced", NULL, fixture_opened, fixture_hold_referenced, fixture_closed, false,
       false},
      {"/test/Bare", NULL, NULL, fixture_unary, NULL, false, false},
      {"/test/EchoToo", NULL, fixture_opened, fixture_echo, fixture_closed, false, false},
      {"/test/Slow", NULL, NULL, fixture_slow, NULL, false, false},
      {"/test/Hurry", NULL, fixture_opened, fixture_hurry, fixture_closed, false, false},
      {"/test/Operator", NULL, fixture_opened, fixture_unary, fixture_closed, false, true},
  };
  memcpy(f->methods, methods, sizeof(methods));
  for (int i = 0; i < FIXTURE_METHODS; i++) f->methods[i].context = f;
  config.methods = f->methods;
  config.num_methods = FIXTURE_METHODS;
  struct error error;
  if (rpc_server_create(&f->server, &config, &error) != STATUS_OK) {
    fprintf(stderr, "%s\n", error.text);
    abort();
  }
  f->num_queues = config.num_queues;
  int port = rpc_server_port(f->server);
  if (port)
    snprintf(f->address, sizeof(f->address), "127.0.0.1:%d", port);
  else
    snprintf(f->address, sizeof(f->address), "%s", config.address);
  for (int i = 0; i < config.num_queues; i++) {
    struct fixture_worker *worker = malloc(sizeof(*worker));
    *worker = (struct fixture_worker){f, i};
    pthread_create(&f->threads[i], NULL, fixture_thread, worker);
  }
}

static inline void fixture_create_bounded(struct fixture *f, const char *address, int num_queues,
                                          size_t max_message_bytes, int max_calls,
                                          int max_connection_calls, int patience_ms) {
  fixture_create_from(f, (struct rpc_server_config){.address = address,
                                                    .num_queues = num_queues,
                                                    .max_message_bytes = max_message_bytes,
                                                    .max_calls = max_calls,
                                                    .max_connection_calls = max_connection_calls,
                                                    .patience_ms = patience_ms});
}

static inline void fixture_create(struct fixture *f, const char *address, int num_queues,
                                  size_t max_message_bytes) {
  fixture_create_bounded(f, address, num_queues, max_message_bytes, 0, 0, 0);
}

static inline void fixture_create_asking(struct fixture *f, const char *address,
                                         struct credentials *credentials) {
  fixture_create_from(f, (struct rpc_server_config){.address = address,
                                                    .num_queues = 1,
                                                    .max_message_bytes = 1000,
                                                    .credentials = credentials});
}

/* Stops the server as the learner does; the caller's streams may still be open. */
static inline void fixture_stop(struct fixture *f) {
  rpc_server_shutdown(f->server);
  rpc_server_cancel_all(f->server);
  for (int i = 0; i < f->num_queues; i++) pthread_join(f->threads[i], NULL);
  rpc_server_destroy(f->server);
  f->server = NULL;
}

static inline void fixture_destroy(struct fixture *f) {
  if (f->server) fixture_stop(f);
  pthread_cond_destroy(&f->changed);
  pthread_mutex_destroy(&f->lock);
}

/* Waits up to 10 s for a counter to reach a value. */
static inline bool fixture_reaches(atomic_int *counter, int value) {
  for (int64_t end = clock_now_us() + 10000000; atomic_load(counter) != value; clock_sleep_us(500))
    if (clock_now_us() > end) return false;
  return true;
}

/* ---- the client's side */

struct fixture_reply {
  uint8_t *bytes;
  size_t size;
};

static inline void fixture_receive(void *context, const struct wire_span *spans, int n) {
  struct fixture_reply *reply = context;
  free(reply->bytes);
  reply->bytes = fixture_gather(spans, n, &reply->size);
}

/* One exchange of a small text; true if a message came back. */
static inline bool fixture_say(struct rpc_call *call, const char *text, struct rpc_result *result,
                               bool *ended) {
  struct fixture_reply reply = {0};
  *result = rpc_exchange(call, "", 0, text, strlen(text), fixture_receive, &reply, ended);
  bool came = reply.bytes != NULL;
  free(reply.bytes);
  return came;
}

#endif
