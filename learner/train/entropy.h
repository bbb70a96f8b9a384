/* The entropy coefficient: a constant, one that falls linearly, or one that is adjusted so that the
 * policy's mean entropy approaches a target.
 *
 * Adjusted, the coefficient is exp(speed * p); the loss coefficient * (entropy - target), in which
 * the entropy counts as a constant, pushes p down while the entropy is above the target and up
 * while it is below.
 * Upstream: train/update.c. Thread: the trainer's.
 * Invariant: |p| <= 20 / speed, so the coefficient stays finite.
 * Source: SEED RL (Espeholt et al. 2020), its V-trace learner. */
#ifndef ACORN_LEARNER_TRAIN_ENTROPY_H
#define ACORN_LEARNER_TRAIN_ENTROPY_H

#include "learner/learn/actor_critic_options.h"
#include "learner/train/optimizer.h"

struct entropy_cost {
  double constant; /* the coefficient when nothing is adjusted, */
  double decay;    /* and the share of it that has gone at the run's end */
  double target;   /* < 0: nothing is adjusted */
  double speed;
  struct scalar_adam p; /* steps 0: never adjusted */
};

/* Errors: INVALID: with a target, cost and speed must be above 0, and nothing may decay. */
MUST_CHECK enum status entropy_cost_init(struct entropy_cost *cost,
                                         const struct actor_critic_options *options,
                                         struct error *error);

/* The coefficient where that share of the run, from 1 to 0, is left. */
double entropy_cost_now(const struct entropy_cost *cost, double share_left);

/* The adjustment's own loss at this mean entropy; 0 without a target. */
double entropy_cost_loss(const struct entropy_cost *cost, double entropy);

/* One step towards the target; nothing without one. */
void entropy_cost_adjust(struct entropy_cost *cost, double entropy, double learning_rate);

#endif
