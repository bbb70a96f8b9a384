/* From the numbers that a training step leaves on the device to what a person reads: means, policy
 * lag, and whether all of it is finite. Upstream: train/update.c only. Thread: the trainer's. */
#ifndef ACORN_LEARNER_TRAIN_UPDATE_STATS_H
#define ACORN_LEARNER_TRAIN_UPDATE_STATS_H

#include "learner/train/update.h"

/* What one download brings from the device: vtrace_loss's sums, then the gradient's norm. */
enum update_scalar {
  SUM_STEPS,
  SUM_POLICY_LOSS,
  SUM_BASELINE_LOSS,
  SUM_ENTROPY,
  SUM_KL,
  SUM_VALUE,
  SUM_REWARD,
  SUM_RHO_CLIPPED,
  GRADIENT_NORM,
  UPDATE_SCALARS
};

/* All members that follow from the scalars and the batch; the others are 0. version: of the
 * parameters that train. */
struct update_stats update_stats_read(const float scalar[UPDATE_SCALARS],
                                      const struct train_batch *batch, int64_t version);

/* Errors: CORRUPT: a loss, or the gradient's norm, is not finite; names update `number` and the
 * quantity. The norm is finite only if every gradient is, so this costs no pass over them. */
MUST_CHECK enum status update_stats_check(const struct update_stats *stats, int64_t number,
                                          struct error *error);

#endif
