/* What the words of run_local.sh ask for, every one of them checked before anything starts.
 * Upstream: deploy/launch.c. Downstream: arguments.h, checks.h, earlier_run.h, evaluators.h,
 * atari_words.h.
 * Thread: one, at start. */
#ifndef ACORN_DEPLOY_LAUNCH_PLAN_H
#define ACORN_DEPLOY_LAUNCH_PLAN_H

#include <limits.h>
#include <stdbool.h>

#include "actor/options.h"
#include "deploy/arguments.h"
#include "deploy/options.h"
#include "envs/env.h"
#include "learner/options.h"

struct launch_plan {
  struct arguments arguments;     /* what follows from the others has been added to its words */
  struct launch_options own;      /* evaluators and eval_envs: as many as the run has */
  struct learner_options learner; /* as the learner will read them */
  struct actor_options actor;
  const struct acorn_env *env;
  char *env_word; /* as the programs get it: the path of a plugin is absolute */
  bool evaluates;
  int envs_per_actor;
  char run_folder[PATH_MAX]; /* of the run that is resumed without --logdir; "": none */
};

/* Reads ENV AGENT NUM_ACTORS [ENVS_PER_ACTOR] [--flag=value ...]. Only arguments is set where help
 * is asked for. Errors: INVALID: a word that is none, or does not fit the others; of a run that is
 * played or continued. */
MUST_CHECK enum status launch_plan_parse(struct launch_plan *plan, int argc, char **argv,
                                         struct error *error);

#endif
