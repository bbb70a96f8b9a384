#include "actor/worker.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "actor/crash.h"
#include "actor/env_pool.h"
#include "actor/link.h"
#include "common/base/notify.h"
#include "actor/turn.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/thread.h"

/* One more failure of an environment after so many within so long ends the actor. */
enum { EARLIER_FAILURES = 4, FAILURE_WINDOW_US = 60000000 };

struct worker {
  struct link *link;
  struct measure measure;
  void (*finished)(void);
  pthread_t thread;
  sem_t made; /* the environments are there, or `status` says why not */
  unsigned call_limit_s;
  atomic_int_fast64_t stepping_since_us; /* 0: waiting for the learner */
  atomic_bool waits_for_turn;

  /* the thread's own */
  struct env_pool *pool;
  struct env_pool_rows rows;
  uint8_t *own_observation; /* (K, wire bytes), for a lease without shared rows */
  void *actions;
  bool stepped;                         /* the supervisor knows */
  int64_t failure_us[EARLIER_FAILURES]; /* a ring: when environments failed last */
  int num_failures;
  _Alignas(16) uint8_t crash_stack[CRASH_STACK_BYTES];

  /* written before `made`, and again before `ended` */
  enum status status;
  struct error error;
  atomic_bool ended;
};

/* What the thread begins with; gone once the environments are made. */
struct start {
  struct worker *worker;
  struct env_pool_config pool;
};

/* ---- the loop */

static void begin_stepping(struct worker *worker, int64_t now_us) {
  atomic_store_explicit(&worker->stepping_since_us, now_us, memory_order_relaxed);
}

/* A supervisor starts an actor that has stepped again however often it dies. */
static void notify_first_step(struct worker *worker) {
  if (!worker->stepped) notify_send(NOTICE_STEPPED);
  worker->stepped = true;
}

/* Plays with one lease until it ends, which is never OK. */
static enum status play(struct worker *worker, const struct wire_join_reply *lease,
                        struct error *error) {
  struct env_pool_seeds seeds = {lease->environment_seed, lease->episode_seed_stride};
  uint8_t *shared = link_shared_rows(worker->link);
  worker->rows.observation = shared ? shared : worker->own_observation;
  begin_stepping(worker, clock_now_us());
  enum status status = env_pool_begin(worker->pool, &worker->rows, &seeds, error);
  int64_t sent_us = clock_now_us();

  while (status == STATUS_OK) {
    begin_stepping(worker, 0);
    status = link_exchange(worker->link, worker->actions, &worker->rows, error);
    if (status != STATUS_OK) break;

    int64_t received_us = clock_now_us();
    uint64_t steps = env_pool_steps(worker->pool);
    begin_stepping(worker, received_us);
    status = env_pool_step(worker->pool, &worker->rows, worker->actions, error);

    if (status == STATUS_OK) notify_first_step(worker);
    int64_t stepped_us = clock_now_us();
    measure_message(&worker->measure, received_us - sent_us, env_pool_steps(worker->pool) - steps,
                    stepped_us - received_us);
    sent_us = stepped_us;
  }
  begin_stepping(worker, 0);
  return status;
}

/* An environment that fails once in a while is replaced; one that always does would go on for ever.
 * */
static bool fails_too_often(struct worker *worker) {
  int64_t now_us = clock_now_us();
  int64_t *oldest = &worker->failure_us[worker->num_failures % EARLIER_FAILURES];
  bool too_often = worker->num_failures >= EARLIER_FAILURES && now_us - *oldest < FAILURE_WINDOW_US;
  *oldest = now_us;
  worker->num_failures++;
  return too_often;
}

/* One lease after another, until the run is over or nothing can be done. */
static enum status work(struct worker *worker, struct error *error) {
  for (;;) {
    const struct wire_join_reply *lease;
    enum status status = link_join(worker->link, &lease, error);
    if (status != STATUS_OK) return status;

    status = play(worker, lease, error);
    bool environment_failed = status == STATUS_IO;
    if (environment_failed && fails_too_often(worker)) return status;
    if (!environment_failed && status != STATUS_UNAVAILABLE) return status;
    log_warn("%s; joining again", error->text);
  }
}

/* Only one worker makes its environments at a time, so that the process's alarm is free. */
static enum status make_environments(struct worker *worker, const struct env_pool_config *config) {
  crash_limit(worker->call_limit_s);
  enum status status = env_pool_create(&worker->pool, config, &worker->error);
  crash_limit(0);
  return status;
}

/* Environments may belong to the thread that made them (a database, a window, thread-local data):
 * they are made, stepped and closed here. */
static void *worker_main(void *context) {
  struct start *start = context;
  struct worker *worker = start->worker;
  crash_watch_thread(worker->crash_stack);
  turn_watch(&worker->waits_for_turn);
  thread_computes();
  worker->status = make_environments(worker, &start->pool);
  bool made = worker->status == STATUS_OK;
  sem_post(&worker->made);
  if (!made) return NULL;
  worker->status = work(worker, &worker->error);
  atomic_store(&worker->ended, true);
  worker->finished();
  env_pool_destroy(worker->pool);
  return NULL;
}

/* ---- from outside */

static void create_rows(struct worker *worker, const struct wire_layout *layout, int action_bytes) {
  size_t K = (size_t)layout->num_environments;
  worker->rows = (struct env_pool_rows){
      .reward = check_alloc(K, sizeof(float)),
      .flags = check_alloc(K, 1),
      .episodes = check_alloc(K, sizeof(struct wire_episode)),
  };
  worker->own_observation = check_alloc(K, layout->wire_bytes);
  worker->actions = check_alloc(K, (size_t)action_bytes);
}

static void destroy_parts(struct worker *worker) {
  link_destroy(worker->link);
  sem_destroy(&worker->made);
  free(worker->own_observation);
  free(worker->rows.reward);
  free(worker->rows.flags);
  free(worker->rows.episodes);
  free(worker->actions);
  free(worker);
}

enum status worker_create(struct worker **out, const struct worker_config *config,
                          struct error *error) {
  *out = NULL;
  struct wire_layout layout;
  wire_layout_of_space(&layout, &config->request.space, config->request.num_environments);
  struct link_config link = {.address = config->address,
                             .credentials = config->credentials,
                             .request = &config->request,
                             .layout = &layout,
                             .shared_rows = config->shared_rows,
                             .reconnect_us = config->reconnect_us};

  struct worker *worker = check_alloc(1, sizeof *worker);
  struct start start = {
      worker,
      {config->env, config->env_config, &layout, &config->request.space, config->step_delay_us}};
  worker->finished = config->finished;
  worker->call_limit_s = config->call_limit_s;
  create_rows(worker, &layout, space_action_bytes(&config->request.space));
  worker->link = link_create(&link);
  sem_init(&worker->made, 0, 0);
  thread_start(&worker->thread, "worker", worker_main, &start);
  while (sem_wait(&worker->made) != 0) continue; // a signal has come
  /* From here on the status is the thread's, unless it has ended. */
  bool made = worker->pool != NULL;
  if (made) {
    *out = worker;
    return STATUS_OK;
  }
  pthread_join(worker->thread, NULL);
  enum status status = worker->status;
  *error = worker->error;
  destroy_parts(worker);
  return status;
}

void worker_cancel(struct worker *worker) {
  link_cancel(worker->link);
}

bool worker_finished(struct worker *worker, enum status *status, struct error *error) {
  if (!atomic_load(&worker->ended)) return false;
  *status = worker->status;
  *error = worker->error;
  return true;
}

int64_t worker_stepping_us(struct worker *worker) {
  int64_t since_us = atomic_load_explicit(&worker->stepping_since_us, memory_order_relaxed);
  return since_us ? clock_now_us() - since_us : 0;
}

bool worker_waits_for_turn(struct worker *worker) {
  return atomic_load_explicit(&worker->waits_for_turn, memory_order_relaxed);
}

struct measure *worker_measure(struct worker *worker) {
  return &worker->measure;
}

void worker_destroy(struct worker *worker) {
  worker_cancel(worker);
  pthread_join(worker->thread, NULL);
  destroy_parts(worker);
}
