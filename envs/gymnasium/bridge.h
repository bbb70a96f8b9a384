/* An environment in Python, named by --env=, as one struct of functions.
 * Upstream: bridge.c, which makes it; game.c, atari.c. */
#ifndef ACORN_ENVS_GYMNASIUM_BRIDGE_H
#define ACORN_ENVS_GYMNASIUM_BRIDGE_H

#include "envs/env.h"

struct bridged {
  struct acorn_env env; /* first: acorn_config.env points here */
  char name[ACORN_NAME_BYTES];
  char *word; /* gym:CartPole-v1 */
};

static inline const char *bridged_word(const struct acorn_config *config) {
  return ((const struct bridged *)config->env)->word;
}

#endif
