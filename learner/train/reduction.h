/* All-reduce of gradient and sums over several learners; with one, as today, the identity.
 *
 * After this call both are the same on all learners, and every decision (finite, learning rate,
 * entropy cost, stop) uses its result.
 *
 * Upstream: train/update.c. Thread: the trainer's.
 * Invariant: the gradient is the mean of the learners' gradients, the sums are added up. */
#ifndef ACORN_LEARNER_TRAIN_REDUCTION_H
#define ACORN_LEARNER_TRAIN_REDUCTION_H

#include "learner/device/device.h"

struct reduction {
  int rank;     /* of this learner, from 0: random numbers depend on it too */
  int learners; /* how many there are */
};

/* One contiguous array: gradient (P), then sums (num_sums); in place. */
void reduction_apply(const struct reduction *reduction, struct device *device, real *gradient,
                     size_t P, size_t num_sums);

#endif
