/* Checks the rows that an environment writes: finite numbers, valid flags.
 *
 * Environments may be third-party code; the actor can name the one that broke the rules, the
 * learner could not.
 * Upstream: actor/env_pool.c, actor/trial.c. Thread: any (no state). */
#ifndef ACORN_ACTOR_ROW_CHECK_H
#define ACORN_ACTOR_ROW_CHECK_H

#include "common/base/status.h"
#include "common/wire/wire.h"
#include "envs/env.h"

/* After a step that returned 0: reward and observation are finite, terminated and truncated 0
 * or 1, numbers have names that fit. row->observation is aligned. Errors: IO, a sentence without
 * the environment's name. */
MUST_CHECK enum status row_check_step(const struct acorn_row *row, const struct space *space,
                                      struct error *error);

/* After a reset that returned 0: the observation is finite, and nothing has ended. Errors: IO. */
MUST_CHECK enum status row_check_reset(const struct acorn_row *row, const struct space *space,
                                       struct error *error);

/* Whether the learner's action is within the space. Errors: MISMATCH. */
MUST_CHECK enum status row_check_action(const void *action, const struct space *space,
                                        struct error *error);

#endif
