/* A run's checkpoints: writes and restores them, and checks that a folder belongs to this run.
 * Upstream: run.c (before the run), main.c (writes). Downstream: params/checkpoint.h,
 * train/trainer.h. */
#ifndef ACORN_LEARNER_RUN_RUN_CHECKPOINT_H
#define ACORN_LEARNER_RUN_RUN_CHECKPOINT_H

#include "learner/run/run.h"

/* The folder that is continued must hold a run of the same environment and agent. Errors: MISMATCH:
 * it holds another; of its config.txt. */
/* space_describe_action where an action is of several choices, else "". Returns out. */
const char *run_choices(char out[SPACE_ACTION_BYTES], const struct space *space);

MUST_CHECK enum status run_check_same(const struct run *run, struct error *error);

/* Loads the checkpoint of a run that is resumed or evaluated; one that has had its steps is stopped
 * at once, without waiting for actors. A resumed run without a checkpoint starts anew, an evaluated
 * one must have one. Thread: main, before the trainer starts. Errors: checkpoint_read's. */
MUST_CHECK enum status run_load_if_wanted(struct run *run, struct error *error);

/* Asks the trainer for a buffer, for those of `kinds` (enum kept_kind). None may be in use. */
void run_request_checkpoint(struct run *run, int kinds);

/* Writes a checkpoint, and the replay with it, of the present state (the trainer must not run), or
 * those that were asked for, of the buffer that on_saved announced. others: kinds besides the
 * newest that the present state is.
 Errors: IO, as a sentence of its own; of a buffer alone:
 * DONE: the run stopped meanwhile, so that another checkpoint follows. Thread: any, one at a time.
 */
MUST_CHECK enum status run_write_checkpoint(struct run *run, int others, struct error *error);
MUST_CHECK enum status run_write_saved(struct run *run, struct error *error);

#endif
