/* Statistics of an update: means, policy lag, and whether every number is finite.
 * Upstream: train/update.c. Thread: the trainer's. */
#ifndef ACORN_LEARNER_TRAIN_UPDATE_STATS_H
#define ACORN_LEARNER_TRAIN_UPDATE_STATS_H

#include "learner/train/update.h"

/* The members that follow from the algorithm's sums and the gradient's norm; the others are 0. */
struct update_stats update_stats_read(const double *sums, double norm,
                                      const struct algorithm *algorithm);

/* Mean age of the batch's actions in updates. version: of the parameters that train. */
double update_stats_lag(const struct train_batch *batch, int64_t version);

/* Errors: CORRUPT: a loss, or the gradient's norm, is not finite; names update `number`, its pass
 * (from 0) unless that is the first, and the quantity. The norm is finite only if every gradient
 * is, so this costs no pass over them. */
MUST_CHECK enum status update_stats_check(const struct update_stats *stats,
                                          const struct algorithm *algorithm, int64_t number,
                                          int pass, struct error *error);

#endif
