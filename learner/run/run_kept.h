/* Checkpoints that a run keeps besides the newest ones: the best, and one every --checkpoint_steps.
 *
 * checkpoints/best-<updates, 12 digits>.acorn is the only one of its kind; checkpoints/best.json
 * has its file's name, its score and of what that is the mean. The score is the mean return of the
 * last 100 episodes, of evaluation where there are any, else of training; null where a run ended
 * before it had so many.
 * checkpoints/step-<steps, 12 digits>.acorn: the first step border after so many steps; they stay.
 * --resume reads none of them.
 * Upstream: run_checkpoint.c, main.c. Threads: main decides, the one that writes checkpoints
 * writes. */
#ifndef ACORN_LEARNER_RUN_RUN_KEPT_H
#define ACORN_LEARNER_RUN_RUN_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "learner/params/checkpoint.h"
#include "learner/episodes/progress.h"

/* What a checkpoint buffer is asked for; bits. */
enum kept_kind { KEPT_NEWEST = 1, KEPT_BEST = 2, KEPT_STEP = 4 };

struct run_kept {
  /* thread main */
  double best; /* the best score so far; -infinity: none */
  bool best_is_eval;
  bool is_evaluated; /* evaluators play: what training has does not replace a best of theirs */
  int64_t best_us, next_step;
  /* what is to be written: set by main before the buffer is asked for */
  double score;
  bool score_is_eval, is_of_few; /* of too few episodes for a resumed run to beat */
  int64_t step;
};

/* At the start: takes up what a resumed run has. `steps`: the run's. */
void run_kept_init(struct run_kept *kept, const char *folder, int64_t steps, int64_t every);

/* One that was due was not written: the best is the one that is there. */
void run_kept_forget(struct run_kept *kept, const char *folder);

/* Which of both are due, KEPT_BEST | KEPT_STEP, and what they are to be written with. `now_us` is
 * the time since the start; longest_us: at most so much time between two that are better, 0: none
 * is written before the end. */
int run_kept_due(struct run_kept *kept, const struct progress_returns *train,
                 const struct progress_returns *eval, int64_t steps, int64_t every, int64_t now_us,
                 int64_t longest_us);

/* At the end: which of both the last state is, too: the best if its score is, or if there is no
 * other. */
int run_kept_last(struct run_kept *kept, const struct progress_returns *train,
                  const struct progress_returns *eval, int64_t steps, int64_t every);

/* Writes those of `kinds`. Errors: checkpoint_write_named's. */
MUST_CHECK enum status run_kept_write(const struct run_kept *kept, int kinds, const char *folder,
                                      int64_t updates, const struct checkpoint_item *items,
                                      int num_items, struct error *error);

/* The path of the best one. Errors: NOT_FOUND. */
MUST_CHECK enum status run_kept_find_best(char path[CHECKPOINT_PATH_BYTES], const char *folder,
                                          struct error *error);

#endif
