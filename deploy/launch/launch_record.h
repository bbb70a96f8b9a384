/* A launcher's part of what a run folder tells: its command line and its actors, which the learner
 * writes into run.json (learner/report/record.h), and result.json where the learner could not.
 * Upstream: deploy/launch/launch.c, task.c. Thread: one. */
#ifndef ACORN_DEPLOY_LAUNCH_LAUNCH_RECORD_H
#define ACORN_DEPLOY_LAUNCH_LAUNCH_RECORD_H

#include "deploy/launch/plan.h"

/* Leaves the words in the environment, for the learner, and makes the run folder, which is this one
 * from here on, whatever its name is given to. `existing`: launch_record_existing of its name,
 * before this start made anything of it. `program` stands for argv[0]. Before the learner
 * starts. */
void launch_record_begin(const struct plan *plan, size_t existing, const char *program, int argc,
                         char **argv);
/* How many bytes of the name lead to a folder that is there. */
size_t launch_record_existing(const char *name);

/* Once more, before the learners that are left start: fewer actors. */
void launch_record_actors(const struct plan *plan);

/* The path by which files of the run folder are reached; "": it is not known. */
const char *launch_record_folder(void);
/* plan->run_folder becomes where it is now. */
void launch_record_follow(struct plan *plan);

/* Whether the run folder has such a file. A start that ended in order has left result.json. */
bool launch_record_has(const char *pattern);

/* A start of this launcher that run.json has and that left no result gets one: its learner was
 * killed. One that was refused is not in run.json; the folders that were made for it, in
 * which the refusal may be by now, are removed. */
void launch_record_end(const struct plan *plan, int exit_code);

#endif
