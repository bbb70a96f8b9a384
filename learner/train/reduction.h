/* All-reduce of gradient and sums over several learners; with one the identity.
 *
 * After this call both are the same on all learners, and every decision (finite, learning rate,
 * entropy cost, stop) uses its result.
 *
 * Upstream: train/update.c. Downstream: train/peers.h. Thread: the trainer's.
 * Invariant: the gradient is that of the learners' batches in one, the sums are added up. */
#ifndef ACORN_LEARNER_TRAIN_REDUCTION_H
#define ACORN_LEARNER_TRAIN_REDUCTION_H

#include "learner/device/device.h"
#include "learner/train/peers.h"

struct reduction {
  struct peers *peers; /* NULL: there is one learner */
  bool over_windows;   /* the gradient is a mean over windows; else over the steps that count */
};

/* One contiguous array, in place: gradient (P), then sums (num_sums), the first of them the steps
 * that count, then a number of scratch. windows: of the batch, 0 where this learner had none. */
void reduction_apply(const struct reduction *reduction, struct device *device, real *gradient,
                     size_t P, size_t num_sums, int windows);

#endif
