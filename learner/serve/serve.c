#include "learner/serve/serve.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/thread.h"

enum {
  STOP_POLL_US = 5000,
  QUEUE_WAIT_US = 100000,
  EXPIRE_US = 1000000,
  LONG_US = 100000,
  NAP_US = 5000,
  IDLE_POLLS = 3,
  CONTROL_US = 5000, /* of the main loop's time for Joins and Status, each time */
  TURN_US = 20000,   /* a queue thread that has not turned for longer moves no bytes */
  CALM_US = 2000000, /* without a call: the next one is not near, most likely */
  /* Honest actors have a Play or a Join for each environment at most; Status and health besides. */
  SPARE_CALLS = 1000,
  SPARE_CONNECTION_CALLS = 64
};

/* A queue thread's argument. */
struct queue {
  struct serve *serve;
  int index;
  pthread_t thread;
};

struct serve {
  struct rpc_server *server;
  struct rpc_method *methods; /* all that it has */
  struct ingress *ingress;
  struct leases *leases;
  struct batcher *batcher;
  struct inference *inference;
  bool inline_inference;
  int num_queues;
  struct queue *queue; /* (num_queues) */
  pthread_t inference_thread;
  int64_t called_us;              /* when the control queue had a call last; main thread */
  atomic_int_least64_t turned_us; /* when a queue thread was last at its loop's begin */
  atomic_bool stopping;           /* no more inference: streams with queued rows are ended */
};

static bool may_run(const struct serve *serve) {
  return !atomic_load(&serve->stopping) && !inference_ended(serve->inference);
}

/* Launches the batches that are ready while there is room for them, and finishes those that the
 * device has computed; with `waits` all. Returns whether there was any. */
static bool run_ready(struct serve *serve, int64_t now_us, int64_t *deadline_us, bool waits) {
  struct inference *inference = serve->inference;
  for (bool ran = false;; ran = true) {
    struct row_batch *batch = NULL;
    if (inference_has_room(inference) && may_run(serve))
      batch = batcher_try_take(serve->batcher, now_us, deadline_us);
    if (batch)
      inference_launch(inference, batch);
    else if (inference_running(inference) && (waits || !inference_computes(inference)))
      inference_finish(inference);
    else
      return ran;
  }
}

static void end_silent_leases(const struct serve *serve, int64_t now_us) {
  struct rpc_stream *stream;
  while ((stream = leases_expire(serve->leases, now_us))) {
    rpc_stream_cancel(stream, RPC_DEADLINE_EXCEEDED, "no rows came for 10 minutes");
    rpc_stream_unref(stream);
  }
}

/* Handles what has come. A poll without an event may have read a part of a message: several end
 * it, or more events than honest clients have. Returns -1 once the queue has ended. */
static int read_all(const struct queue *queue) {
  const struct serve *serve = queue->serve;
  int most = 2 * leases_num_slots(serve->leases) + SPARE_CALLS;
  for (int idle = 0; idle < IDLE_POLLS && most > 0; most--) {
    int handled = rpc_server_poll(serve->server, queue->index, 0);
    if (handled < 0) return -1;
    idle = handled ? 0 : idle + 1;
  }
  return 0;
}

/* Handles an event. While the device computes it does not wait for one: the actions are sent as
 * soon as they are there. While rows wait for time to pass it sleeps instead, and handles all that
 * has come meanwhile: in a large fleet, being woken for each message costs more than reading it.
 * Returns -1 once the queue has ended. */
static int poll_inline(const struct queue *queue, int64_t deadline_us) {
  const struct serve *serve = queue->serve;
  bool computes = inference_running(serve->inference) > 0;
  if (!computes && batcher_waits_out(serve->batcher)) {
    int64_t left_us = deadline_us - clock_now_us();
    if (left_us > 0) clock_sleep_us(left_us < NAP_US ? left_us : NAP_US);
    return read_all(queue);
  }
  int handled = rpc_server_poll(serve->server, queue->index, computes ? 0 : deadline_us);
  if (handled == 0 && computes) sched_yield();
  return handled;
}

static void turn(struct serve *serve, int64_t now_us) {
  atomic_store_explicit(&serve->turned_us, now_us, memory_order_relaxed);
}

/* One queue and inference on one thread: a linear loop. */
static void *run_inline(void *argument) {
  struct queue *queue = argument;
  struct serve *serve = queue->serve;
  int64_t expire_us = 0, deadline_us = 0;
  while (poll_inline(queue, deadline_us) >= 0) {
    int64_t now_us = clock_now_us();
    turn(serve, now_us);
    deadline_us = now_us + QUEUE_WAIT_US;
    bool ran = run_ready(serve, now_us, &deadline_us, false);
    /* After a wait for the trainer everybody who came meanwhile has a turn. */
    if (ran && clock_now_us() - now_us > LONG_US) read_all(queue);
    if (now_us >= expire_us) {
      end_silent_leases(serve, now_us);
      expire_us = now_us + EXPIRE_US;
    }
  }
  while (inference_running(serve->inference)) inference_finish(serve->inference);
  return NULL;
}

static void *run_queue(void *argument) {
  struct queue *queue = argument;
  struct serve *serve = queue->serve;
  int64_t now_us = clock_now_us();
  while (rpc_server_poll(serve->server, queue->index, now_us + QUEUE_WAIT_US) >= 0) {
    now_us = clock_now_us();
    turn(serve, now_us);
    if (queue->index == 0) end_silent_leases(serve, now_us);
  }
  return NULL;
}

static void *run_inference(void *argument) {
  struct serve *serve = argument;
  struct row_batch *batch;
  while (may_run(serve) && (batch = batcher_take(serve->batcher))) {
    int64_t deadline_us; /* batcher_take has its own */
    inference_launch(serve->inference, batch);
    run_ready(serve, clock_now_us(), &deadline_us, true);
  }
  return NULL;
}

/* The ingress's, then the config's. */
static void gather_methods(struct serve *serve, struct rpc_server_config *server,
                           const struct serve_config *config) {
  int count;
  const struct rpc_method *own = ingress_methods(serve->ingress, &count);
  server->num_methods = count + config->num_methods;
  server->methods = serve->methods =
      check_alloc((size_t)server->num_methods, sizeof(*serve->methods));
  memcpy(serve->methods, own, (size_t)count * sizeof(*own));
  if (config->num_methods)
    memcpy(serve->methods + count, config->methods, (size_t)config->num_methods * sizeof(*own));
}

enum status serve_start(struct serve **out, const struct serve_config *config,
                        struct ingress *ingress, struct leases *leases, struct batcher *batcher,
                        struct inference *inference, struct error *error) {
  struct serve *serve = check_alloc(1, sizeof(*serve));
  serve->ingress = ingress;
  serve->leases = leases;
  serve->batcher = batcher;
  serve->inference = inference;
  serve->called_us = clock_now_us();
  serve->inline_inference = config->queues == 0;
  serve->num_queues = config->queues ? config->queues : 1;
  int slots = leases_num_slots(leases);
  struct rpc_server_config server = {.address = config->listen,
                                     .credentials = config->credentials,
                                     .num_queues = serve->num_queues,
                                     .max_message_bytes = config->max_message_bytes,
                                     .max_calls = 4 * slots + SPARE_CALLS,
                                     .max_connection_calls = slots + SPARE_CONNECTION_CALLS};
  gather_methods(serve, &server, config);
  enum status status = rpc_server_create(&serve->server, &server, error);
  if (status != STATUS_OK) {
    free(serve->methods);
    free(serve);
    return status;
  }
  serve->queue = check_alloc((size_t)serve->num_queues, sizeof(*serve->queue));
  for (int i = 0; i < serve->num_queues; i++) {
    serve->queue[i] = (struct queue){.serve = serve, .index = i};
    thread_start(&serve->queue[i].thread, "queue", serve->inline_inference ? run_inline : run_queue,
                 &serve->queue[i]);
  }
  if (!serve->inline_inference)
    thread_start(&serve->inference_thread, "inference", run_inference, serve);
  *out = serve;
  return STATUS_OK;
}

int serve_poll_ms(int64_t now_us, int64_t called_us, int64_t turned_us) {
  bool calm = now_us - called_us >= CALM_US && now_us - turned_us <= TURN_US;
  return calm ? SERVE_CALM_MS : SERVE_POLL_MS;
}

int serve_poll(struct serve *serve) {
  int64_t now_us = clock_now_us(), until_us = now_us + CONTROL_US;
  while (rpc_server_poll(serve->server, serve->num_queues, 0) > 0 && now_us < until_us)
    serve->called_us = now_us = clock_now_us();
  return serve_poll_ms(now_us, serve->called_us, atomic_load(&serve->turned_us));
}

int serve_port(const struct serve *serve) {
  return rpc_server_port(serve->server);
}

/* Waits until no player is connected, and for players that may reconnect; ends the streams of the
 * rows that are queued. */
static void end_streams(struct serve *serve, int64_t grace_us, int64_t linger_us,
                        const volatile sig_atomic_t *hurry) {
  int64_t start_us = clock_now_us();
  for (;;) {
    serve_poll(serve); /* first: a Join that came just before the end is answered too */
    struct row_batch *rest = batcher_take_rest(serve->batcher);
    if (rest) {
      ingress_end_batch(serve->ingress, rest);
      batcher_recycle(serve->batcher, rest);
    }
    struct leases_count count = leases_count(serve->leases);
    int64_t waited_us = clock_now_us() - start_us;
    bool playing = count.players > 0 && waited_us < grace_us;
    bool awaited = count.absent > 0 && waited_us < linger_us && !*hurry;
    if (!playing && !awaited) break;
    clock_sleep_us(STOP_POLL_US);
  }
}

void serve_stop(struct serve *serve, int64_t grace_us, int64_t linger_us,
                const volatile sig_atomic_t *hurry) {
  atomic_store(&serve->stopping, true);
  batcher_close(serve->batcher);
  if (!serve->inline_inference) pthread_join(serve->inference_thread, NULL);
  end_streams(serve, grace_us, linger_us, hurry);
  rpc_server_shutdown(serve->server);
  rpc_server_cancel_all(serve->server);
  while (rpc_server_poll(serve->server, serve->num_queues, clock_now_us() + QUEUE_WAIT_US) >= 0)
    continue;
  for (int i = 0; i < serve->num_queues; i++) pthread_join(serve->queue[i].thread, NULL);
}

void serve_destroy(struct serve *serve) {
  if (!serve) return;
  rpc_server_destroy(serve->server);
  free(serve->queue);
  free(serve->methods);
  free(serve);
}
