/* --game, --sticky_actions and --resize: short ways to write --env_args for those who train on the
 * Atari.
 * Upstream: deploy/launch_plan.c. Thread: one, at start. */
#ifndef ACORN_DEPLOY_ATARI_WORDS_H
#define ACORN_DEPLOY_ATARI_WORDS_H

#include "common/base/status.h"
#include "deploy/options.h"

/* *out: `env_args` with what was given of them added, or NULL if nothing was. Owner: the caller,
 * with free(). Errors: INVALID: they were given for another environment, or `env_args` is no JSON
 * object. */
MUST_CHECK enum status atari_words_add(char **out, const struct launch_options *options,
                                       const char *env, const char *env_args, struct error *error);

#endif
