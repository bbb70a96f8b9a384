/* A launcher's part of what a run folder tells: its command line and its actors, which the learner
 * writes into run.json (learner/report/record.h), and result.json where the learner could not.
 * Upstream: deploy/launch.c, task.c. Thread: one. */
#ifndef ACORN_DEPLOY_LAUNCH_RECORD_H
#define ACORN_DEPLOY_LAUNCH_RECORD_H

#include "deploy/plan.h"

/* Leaves the words in the environment, for the learner. `program` stands for argv[0]. Before the
 * learner starts. */
void launch_record_begin(const struct plan *plan, const char *program, int argc, char **argv);

/* Whether the start that has ended left its result. */
bool launch_record_has_result(const char *run_folder);

/* A start of this launcher that run.json has and that left no result gets one: its learner was
 * killed. One that was refused is not in run.json. */
void launch_record_end(const struct plan *plan, int exit_code);

#endif
