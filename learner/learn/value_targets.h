/* Targets of values on one scale: the mean and deviation that they have with those of a batch,
 * running ones or of it alone, by whose deviation the errors of values are divided in its update.
 * The network adopts them behind the update's passes. Advantages have a deviation of their own, of
 * the batch. Where the network does not scale its value (network_value_statistics) both are 1 and
 * nothing else happens.
 * Upstream: actor_critic.h, actor_critic.c, ppo.c. Downstream: learner/network.
 * Thread: the trainer's. Source: van Hasselt et al. 2016; with an actor-critic: Hessel et al. 2019,
 * section 3. */
#ifndef ACORN_LEARNER_LEARN_VALUE_TARGETS_H
#define ACORN_LEARNER_LEARN_VALUE_TARGETS_H

#include "learner/network/network.h"

/* Arrays are device memory. */
struct value_targets {
  struct device *device;
  const struct network *network;
  real *next;                /* (NETWORK_VALUE_STATISTICS) */
  const real *deviation;     /* (1) of these: what errors of values are divided by */
  real *advantage_deviation; /* (1) what advantages are divided by */
  real *mean, *spread;       /* sums over the targets; NULL where the value is not scaled */
  float most;                /* targets before a batch that count beside it */
  float least;               /* deviation of the targets */
  bool keeps_values;         /* values stay where the statistics move */
  void *schedule;            /* for rules that do not look at it; likewise */
};

void value_targets_init(struct value_targets *self, struct device *device,
                        const struct network *network);
void value_targets_deinit(struct value_targets *self);

/* After init: the statistics are of the batch alone, and values follow them. For targets that fall
 * by orders of magnitude: running statistics would remember large ones, and a layer that kept its
 * values would have weights, and gradients, as many times larger. A loss of them has to be that of
 * the number that becomes a value with these statistics, as curiosity.rule.h has it. */
void value_targets_of_batch(struct value_targets *self, float least);

/* From the targets (T, N) of the steps that count by flags (T, N), and the statistics in params. */
void value_targets_measure(struct value_targets *self, const real *params, const real *targets,
                           const uint8_t *flags, int T, int N);

/* From the advantages (T, N) of these steps: their deviation, of this batch alone. */
void value_targets_measure_advantages(struct value_targets *self, const real *advantages,
                                      const uint8_t *flags, int T, int N);

/* What an algorithm's settle does of it. */
void value_targets_adopt(struct value_targets *self, real *params, const real *skipped);

#endif
