/* Optimisers: what turns a gradient into new parameters, and the state they keep for it.
 *
 * Upstream: train/update.c. Downstream: the device's adam and rmsprop. Thread: the trainer's.
 * Invariant: the state depends on nothing but the gradients, rates and step numbers that were
 * applied. */
#ifndef ACORN_LEARNER_TRAIN_OPTIMIZER_H
#define ACORN_LEARNER_TRAIN_OPTIMIZER_H

#include "learner/device/device.h"
#include "learner/train/optimizer_options.h"

enum { OPTIMIZER_SLOTS = 2 };

struct optimizer;

/* For P parameters. State starts at 0, but for RMSProp's mean square: 1, as in TensorFlow's
 * RMSPropOptimizer, which IMPALA used, so that the first steps are small. Errors: INVALID (unknown
 * name: says which there are; a rate out of range). */
MUST_CHECK enum status optimizer_create(struct optimizer **out, struct device *device, size_t P,
                                        const struct optimizer_options *config,
                                        struct error *error);
void optimizer_destroy(struct optimizer *optimizer);

/* One step, in place; none where the norm of the gradient is not finite.
 * Shapes: params, gradient: (P); norm: (1). */
void optimizer_apply(struct optimizer *optimizer, real *params, const real *gradient,
                     const real *norm, const struct device_schedule *schedule);

/* The state: OPTIMIZER_SLOTS arrays of P reals and their names ("adam/m"). */
real *optimizer_slot(const struct optimizer *optimizer, int slot);
const char *optimizer_slot_name(const struct optimizer *optimizer, int slot);

/* Adam for one number on the host, with the paper's rates.
 * Source: Kingma and Ba 2015, algorithm 1. */
struct scalar_adam {
  double value, m, v;
  double steps; /* a whole number; a double so that the state is one array in a checkpoint */
};
void scalar_adam_apply(struct scalar_adam *adam, double gradient, double learning_rate);

#endif
