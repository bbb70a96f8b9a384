/* Copies of steps from the pool's rows, where a slot's steps lie one after the other, into a column
 * of a training batch, which is time-major.
 * Upstream: pages.c, which knows where a window's rows are. Thread: inference. */
#ifndef ACORN_LEARNER_EXPERIENCE_GATHER_H
#define ACORN_LEARNER_EXPERIENCE_GATHER_H

#include "learner/experience/pages.h"

/* `count` rows from `row` on become the steps from `t` on of the column. `previous`: the action
 * before them. Returns the last action, which stays in the pool. */
const void *gather_steps(struct train_batch *batch, const struct pages_rows *rows, int column,
                         int t, int64_t row, int count, const void *previous);

/* The `depth` frames before the column's window, newest first, of which the newest is in
 * `last_row`. */
void gather_footprint(struct train_batch *batch, const struct pages_rows *rows, int column,
                      size_t last_row, int depth);

#endif
