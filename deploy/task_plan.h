/* What one task of a cluster runs: the commands of its learner or of its actors.
 *
 * Every task of a cluster is given the same words; which part falls to it, it knows by its role and
 * index. Actors are numbered over the whole cluster: those on the learner's task first, then those
 * of actor task 0, 1, ... Evaluators that the platform does not place run on the learner's task.
 * Upstream: deploy/task.c. Downstream: deploy/supervisor.c, deploy/evaluators.h. Thread: one, at
 * start. */
#ifndef ACORN_DEPLOY_TASK_PLAN_H
#define ACORN_DEPLOY_TASK_PLAN_H

#include <limits.h>
#include <stdio.h>

#include "actor/options.h"
#include "common/cluster/tf_config.h"
#include "deploy/arguments.h"
#include "deploy/task_options.h"
#include "envs/env.h"
#include "learner/options.h"

struct task_plan {
  /* As asked for; set by task_plan_parse. */
  struct arguments arguments;
  struct task_options own;
  struct learner_options learner_options;
  struct actor_options actor_options;
  const struct acorn_env *env;
  char *env_word; /* as the programs get it: the path of a plugin is absolute */

  /* As the platform has it; set by task_plan_make. */
  struct tf_config cluster;
  const char *source; /* the variable that says so */

  /* What follows; set by task_plan_make. */
  char programs[PATH_MAX];
  char listen[TF_ADDRESS_BYTES]; /* the learner's task only */
  int envs_per_actor;
  int actors_on_learner;
  int num_envs;          /* training environments of the whole cluster */
  char *const *learner;  /* command; NULL: the learner runs elsewhere */
  char *const **actors;  /* (num_actors + num_evaluators) commands */
  int num_actors, first; /* of this task; the number of the first one. An evaluator task has one */
  int num_evaluators;    /* beside the learner; 0 on other tasks */
};

/* Reads ENV AGENT [--flag=value ...] [-- --flag=value ...]. Errors: INVALID. */
MUST_CHECK enum status task_plan_parse(struct task_plan *plan, int argc, char **argv,
                                       struct error *error);

/* Asks the platform and makes the commands. Errors: as platform_find; INVALID; IO. */
MUST_CHECK enum status task_plan_make(struct task_plan *plan, struct error *error);

/* One line with role, index and addresses, and one for each command. */
void task_plan_print(const struct task_plan *plan, FILE *out);

#endif
