/* The experience of a run: how much memory it takes, the pages of steps, and the source of training
 * batches (a FIFO or a replay). Upstream: learner/run/run.c, run_parts.c. Thread: main. */
#ifndef ACORN_LEARNER_RUN_RUN_EXPERIENCE_H
#define ACORN_LEARNER_RUN_RUN_EXPERIENCE_H

#include "learner/run/run.h"

/* What the sizes in the options come to; logs the size of a replay. After the network has been
 * made. Errors: INVALID: sizes that contradict each other, or that this machine has no room for. */
MUST_CHECK enum status run_plan_experience(struct run *run, struct error *error);

/* Whether an update may be started before the one before is finished: not where inference waits for
 * each, nor where the host computes it. */
bool run_updates_overlap(const struct run *run);

/* Rows of an inference batch at most: one for each environment, and as many of actors that died. */
int run_most_rows(const struct run *run);

/* The pages and the source, as planned. */
void run_make_experience(struct run *run);

#endif
