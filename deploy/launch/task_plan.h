/* The plan of one task of a cluster: the platform's variables say which part it has. Every task is
 * given the same words. Evaluators that the platform does not place run on the learner's task.
 * Upstream: deploy/launch/task.c. Downstream: deploy/launch/plan.h. Thread: one, at start. */
#ifndef ACORN_DEPLOY_LAUNCH_TASK_PLAN_H
#define ACORN_DEPLOY_LAUNCH_TASK_PLAN_H

#include "common/cluster/tf_config.h"
#include "deploy/launch/plan.h"

struct task_plan {
  struct plan plan;
  struct tf_config cluster;
  const char *source; /* the variable that says so */
};

/* The form of the words: ENV AGENT [--flag=value ...] [-- --flag=value ...]. */
extern const struct arguments_form task_form;

/* Asks the platform and makes the commands of a plan that has been parsed. Errors: as
 * platform_find; INVALID. */
MUST_CHECK enum status task_plan_make(struct task_plan *task, struct error *error);

#endif
