/* The options that run_local.sh and deploy/run_task.sh have of their own; what the learner and the
 * actors know is theirs. Upstream: deploy/launch/plan.h. Thread: one, at start. */
#ifndef ACORN_DEPLOY_LAUNCH_OPTIONS_H
#define ACORN_DEPLOY_LAUNCH_OPTIONS_H

#include "common/base/options.h"
#include "envs/env_words.h"

struct deploy_options {
  struct options_given given;
  int64_t max_deaths;
  int64_t evaluators; /* beside the learner; -1: what suits agent and cluster */
  int64_t eval_envs;  /* 0: as many as an actor has */
  struct env_flags environment;
  /* run_local.sh */
  bool plot, code;
  int64_t spare_learners; /* of --learners, that may be lost */
  /* deploy/run_task.sh */
  int64_t actors_per_worker;
  int64_t actors_on_learner; /* -1: those of a worker if the cluster has no other actors, else 0 */
  int64_t envs_per_actor;    /* 0: what suits the environment */
  int64_t port;
  char *log_folder; /* "": actors write where the task does */
  int64_t stopped_exit_code;
  bool dry_run;
};

extern const struct option_table launch_options_table, task_options_table;

#endif
