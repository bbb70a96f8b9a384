/* Checks an environment's render function: the size, every byte written, nothing beyond.
 * The picture may differ from one time to the next (smoke that
 * drifts).
 * Upstream: actor/trial.c. Downstream: envs/env.h. Thread: main. */
#ifndef ACORN_ACTOR_PICTURE_CHECK_H
#define ACORN_ACTOR_PICTURE_CHECK_H

#include "common/base/status.h"
#include "envs/env.h"

/* Of one instance; zeroed before the first call. */
struct picture_check {
  int width, height; /* as told first; 0: nothing yet */
};

/* Draws the world as it stands, more than once. An environment without a picture draws it well.
 * Errors: IO, a sentence without the environment's name. */
MUST_CHECK enum status picture_check(struct picture_check *check, const struct acorn_env *env,
                                     void *instance, struct error *error);

#endif
