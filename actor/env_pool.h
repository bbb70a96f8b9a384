/* K environments that step together, and the rows they write: row t of an environment is the
 * observation x_t, the reward of the step into x_t, and flags.
 *
 *   the step into x_t   the row                                              and then
 *   -----------------   --------------------------------------------------   -----------------
 *   ended nothing       x_t, no flags                                        goes on
 *   terminated          the next episode's first observation,                goes on
 *                       FIRST | TERMINATED
 *   truncated           the final observation, TRUNCATED                     the next call
 *                                                                            resets: FIRST,
 *                                                                            reward 0, its
 *                                                                            action ignored
 *   both                as terminated
 *
 * An environment that fails (step or reset returns -1, or it writes NaN or an unknown flag; see
 * actor/row_check.h) has no row to send, and no row could be made up for it. So the whole
 * call fails, the environment is created anew, and the caller ends its stream and joins again: to
 * the learner that is a new life of the K environments, whose unfinished windows it drops. The lost
 * episodes are not reported.
 *
 * Upstream: actor/worker.c. Downstream: envs/env.h. Thread: one per pool.
 * Invariant: after env_pool_create nothing is allocated here, except when an environment has
 * failed. */
#ifndef ACORN_ACTOR_ENV_POOL_H
#define ACORN_ACTOR_ENV_POOL_H

#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/wire.h"
#include "envs/env.h"

struct env_pool;

struct env_pool_config {
  const struct acorn_env *env;           /* borrowed for the pool's life */
  const struct acorn_config *env_config; /* borrowed for the pool's life */
  const struct wire_layout *layout;      /* copied; its num_environments is K */
  const struct space *space;             /* copied */
  int64_t step_delay_us; /* sleep for every environment step, to rehearse slow simulators */
};

/* One message's worth of rows. All arrays are the caller's. */
struct env_pool_rows {
  uint8_t *observation;          /* (K, layout.wire_bytes), unpadded; aligned to 16 */
  float *reward;                 /* (K) */
  uint8_t *flags;                /* (K), enum step_flag */
  struct wire_episode *episodes; /* (K) */
  int num_episodes;              /* of this call */
};

/* Where the seeds of a lease come from, see JoinReply: episode e of environment k is reset with
 * seed[k] + e * stride; with a stride of 0 only the first reset is seeded. */
struct env_pool_seeds {
  const uint64_t *seed; /* (K), borrowed until the next env_pool_begin */
  uint64_t stride;
};

/* Errors: IO, with the environment's sentence. */
MUST_CHECK enum status env_pool_create(struct env_pool **out, const struct env_pool_config *config,
                                       struct error *error);
void env_pool_destroy(struct env_pool *pool);

/* Starts episode 0 of every environment: K rows that are FIRST with reward 0. Errors: IO. */
MUST_CHECK enum status env_pool_begin(struct env_pool *pool, struct env_pool_rows *rows,
                                      const struct env_pool_seeds *seeds, struct error *error);

/* Steps every environment with its action and writes the rows after it.
 * Shapes: actions: (K, action bytes), int32 or float32[d]. Errors: IO: begin anew; MISMATCH: an
 * action that the space does not have. */
MUST_CHECK enum status env_pool_step(struct env_pool *pool, struct env_pool_rows *rows,
                                     const void *actions, struct error *error);

/* Environment steps taken since the pool was created; resets do not count. */
uint64_t env_pool_steps(const struct env_pool *pool);

#endif
