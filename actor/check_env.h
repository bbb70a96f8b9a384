/* actor --check_env: tests an environment against the rules of envs/env.h, with random actions.
 *
 * The same seeds and actions are played several times, each time under another condition, so that
 * each difference has a known cause: randomness that does not come from the seed, bytes that are
 * never written, state that instances share, state that survives reset.
 * Upstream: actor/main.c. Downstream: envs/env.h. Thread: main. */
#ifndef ACORN_ACTOR_CHECK_ENV_H
#define ACORN_ACTOR_CHECK_ENV_H

#include <stdbool.h>
#include <stdio.h>

#include "common/wire/wire.h"
#include "envs/env.h"

/* Prints to `out` what the environment is and a line for each rule, "ok" or "FAIL". Returns whether
 * all hold. A crash ends the process, as does a call that takes longer than crash_limit allows. */
bool check_env(const struct acorn_env *env, const struct acorn_config *config,
               const struct space *space, FILE *out);

#endif
