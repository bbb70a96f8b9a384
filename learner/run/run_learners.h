/* Several learners of one run (--learners), each a process with actors and experience of its own,
 * that train one network. The learner that was started is rank 0: it starts the others, and alone
 * writes the run folder. Each other one has a folder of its own in it, without checkpoints.
 *
 * Upstream: learner/run/run.c, learner/main.c. Downstream: train/peers.h. Thread: main. */
#ifndef ACORN_LEARNER_RUN_RUN_LEARNERS_H
#define ACORN_LEARNER_RUN_RUN_LEARNERS_H

#include "learner/run/run.h"

/* Starts the others (rank 0), and waits for them. `words`: the program's own. Before the update is
 * made. Errors: INVALID: what several learners cannot do; of peers_open. */
MUST_CHECK enum status run_learners_open(struct run *run, char *const *words, struct error *error);
/* They begin with what rank 0 has; after its checkpoint was loaded. Errors: UNAVAILABLE. */
MUST_CHECK enum status run_learners_share(struct run *run, struct error *error);
/* Whether this learner writes the last checkpoint: rank 0, or the first one that still runs, into
 * the run folder, which is its own from then on. False also where the run folder has a checkpoint
 * of as many updates or of a later start, and for a learner that the others have given up. */
bool run_learners_writes(struct run *run);
/* Gives the run folder that it has taken back for its own. False: it has taken none. */
bool run_learners_leave(struct run *run);
/* Waits for the processes of the others to end. */
void run_learners_close(struct run *run);

#endif
