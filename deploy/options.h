/* The launcher's own options; what the learner and the actors know is theirs.
 * Upstream: deploy/launch_plan.c. Thread: one, at start. */
#ifndef ACORN_DEPLOY_OPTIONS_H
#define ACORN_DEPLOY_OPTIONS_H

#include <stdint.h>

#include "common/base/options.h"

struct launch_options {
  struct options_given given;
  int64_t max_deaths;
  int64_t evaluators, eval_envs;
  bool plot;
  char *game, *resize; /* of atari, see deploy/atari_words.h */
  double sticky_actions;
};

extern const struct option_table launch_options_table;

#endif
