/* The options that deploy/run_task.sh has of its own, beside those of learner and actors.
 * Upstream: deploy/task.c, deploy/task_plan.c. Thread: one, at start. */
#ifndef ACORN_DEPLOY_TASK_OPTIONS_H
#define ACORN_DEPLOY_TASK_OPTIONS_H

#include "common/base/options.h"

struct task_options {
  struct options_given given; /* first: see options.h */
  int64_t actors_per_worker;
  int64_t actors_on_learner; /* -1: those of a worker if the cluster has no other actors, else 0 */
  int64_t envs_per_actor;    /* 0: what suits the environment */
  int64_t evaluators;        /* beside the learner; -1: what suits agent and cluster */
  int64_t eval_envs;
  int64_t port, max_deaths;
  char *log_folder; /* "": actors write where the task does */
  bool dry_run;
};

extern const struct option_table task_options_table;

#endif
