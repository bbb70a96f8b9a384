/* Exploration: the probability (epsilon) with which a value-based agent takes a random action.
 *
 * Thread: any (no state). */
#ifndef ACORN_LEARNER_LEARN_EXPLORATION_H
#define ACORN_LEARNER_LEARN_EXPLORATION_H

#include <stdint.h>

enum exploration_kind {
  EXPLORATION_PER_ENVIRONMENT, /* start^(1 + 7 i / (N - 1)) for environment i of N, from start to
                                  start^8, for the whole run. Source: Horgan et al. 2018,
                                  "Distributed prioritized experience replay", section 4.1, with
                                  start 0.4 */
  EXPLORATION_LINEAR,          /* from start to end over the first `steps` steps, then end. Source:
                                  Mnih et al. 2015, "Human-level control" */
  EXPLORATION_CONSTANT         /* start */
};

struct exploration {
  enum exploration_kind kind;
  int environments;  /* N: those that are expected. Further ones explore like the last, and a single
                        one like the first */
  double start, end; /* in [0, 1] */
  int64_t steps;     /* of all environments together */
  double evaluation; /* epsilon of evaluation environments, whatever the kind */
};

/* Epsilon of a training environment: environment is its id, >= 0; steps_so_far counts the run's
 * environment steps. PER_ENVIRONMENT costs a power and never changes, so it need not be computed
 * for every step. */
float exploration_epsilon(const struct exploration *exploration, int environment,
                          int64_t steps_so_far);

/* Mean over the training environments that are expected. */
double exploration_mean_epsilon(const struct exploration *exploration, int64_t steps_so_far);

/* Epsilon of an evaluation environment. */
float exploration_evaluation_epsilon(const struct exploration *exploration);

#endif
