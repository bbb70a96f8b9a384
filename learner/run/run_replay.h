/* The file of a run's replay, with --checkpoint_replay: written with each checkpoint, loaded with
 * it by --resume.
 *
 * File: checkpoints/replay-<updates, 12 digits>.acorn, a block file (common/base/block_file.h):
 * "ACORNRPL", u32 format, u32 crc32c of the checkpoint's parameters, i64 updates; then the source's
 * part (experience/replay_file.h). While it is written: checkpoints/replay.tmp.
 * A replay is of one checkpoint. It has its name before that checkpoint has its own, and only then
 * the older one is removed: so whenever the run is cut off, the newest checkpoint has its replay.
 * Threads: capture: the trainer's at a step border, or main once that has ended; write, remove: the
 * one that writes checkpoints; the others: main, before other threads start. */
#ifndef ACORN_LEARNER_RUN_RUN_REPLAY_H
#define ACORN_LEARNER_RUN_RUN_REPLAY_H

#include "learner/run/run.h"

struct run_replay;

/* NULL unless the run has a replay that is to be saved. */
struct run_replay *run_replay_create(const struct run *run);
void run_replay_destroy(struct run_replay *replay);

/* How many steps the newest replay in the run folder had room for; 0: none can be
 * read. It may still not be of this run. */
double run_replay_saved_steps(const struct run *run);

/* What follows does nothing without a replay that is saved. */

/* After a checkpoint has been loaded: loads its replay. If it is not there, damaged, or does not
 * fit, that is logged, and the run begins with an empty one. */
void run_replay_load(struct run *run);
/* Instead, if the run is over already: its file stays as it is. */
void run_replay_leave(struct run *run);

/* The replay that belongs to the filled checkpoint buffer is the present one. */
void run_replay_capture(struct run *run);
/* Writes what was captured, under its name, while the run goes on. until_stop: ends early once the
 * run stops. Errors: IO; DONE: it ended early. */
MUST_CHECK enum status run_replay_write(struct run *run, bool until_stop, struct error *error);
/* The checkpoint has been written: removes the replays of others. */
void run_replay_remove_others(struct run *run);
/* It could not be: removes what was written for it. */
void run_replay_drop(struct run *run);

#endif
