/* One stream's thread: its environments and its link, in a linear loop: join; reset; send rows, get
 * actions, step.
 * Upstream: actor/main.c. Downstream: actor/env_pool.h, actor/link.h.
 * Thread: worker_create and worker_destroy by one thread; the loop runs on the worker's own, which
 * also makes and closes the environments. */
#ifndef ACORN_ACTOR_WORKER_H
#define ACORN_ACTOR_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "actor/measure.h"
#include "common/base/status.h"
#include "common/wire/wire.h"
#include "envs/env.h"

struct worker;

struct worker_config {
  const char *address;
  struct credentials *credentials;  /* borrowed; NULL: none */
  struct wire_join_request request; /* K is its num_environments */
  const struct acorn_env *env;
  const struct acorn_config *env_config; /* borrowed for the worker's life */
  int64_t step_delay_us;
  int64_t reconnect_us;
  bool shared_rows;       /* see link.h */
  unsigned call_limit_s;  /* of making an environment, see crash_limit; 0: none */
  void (*finished)(void); /* called by the worker's thread once it has ended */
};

/* Starts the thread and returns once it has made the environments; one worker at a time. Errors:
 * IO, with the environment's sentence. */
MUST_CHECK enum status worker_create(struct worker **out, const struct worker_config *config,
                                     struct error *error);

/* Lets the loop end as soon as the step that runs is over. Thread: any. */
void worker_cancel(struct worker *worker);

/* Whether the loop has ended; then *status is DONE (the run is over, or cancelled) or says with
 * `error` what went wrong.
 * Thread: any. */
bool worker_finished(struct worker *worker, enum status *status, struct error *error);

/* How long the environments have been at their present step or reset; 0 while the worker waits.
 * Thread: any. */
int64_t worker_stepping_us(struct worker *worker);

/* Whether they only wait for those of another worker, see turn.h. Thread: any. */
bool worker_waits_for_turn(struct worker *worker);

/* The counters. Thread: any. */
struct measure *worker_measure(struct worker *worker);

/* Cancels, waits until the thread has closed the environments, and frees. */
void worker_destroy(struct worker *worker);

#endif
