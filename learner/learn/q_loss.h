/* The loss of action values over windows, by rules (learner/rules/q_learning.rule.h), and its
 * gradient at the network's outputs.
 * Upstream: learn/q_learning.c. Thread: the device's. */
#ifndef ACORN_LEARNER_LEARN_Q_LOSS_H
#define ACORN_LEARNER_LEARN_Q_LOSS_H

#include "learner/network/action_values.h"

/* Where v(x) is the target network's value of the action at x that is best by the online network
 * (double_q), or else by the target network itself; rescaled back to returns. */
struct q_loss_config {
  int T, N;
  int counted; /* of the T steps of a window the first that count; those after them are only looked
                  at. T: all */
  int n_steps; /* of the returns, which end in v: device.h, n_step */
  struct action_values values;
  enum loss_reduction reduction;
  bool double_q;
  float discount;
  float reward_scale, reward_clip; /* as in device_trace */
  float rescaling; /* epsilon of h(x), on whose scale the values are; 0: none. Z = 1 only */
  float huber;     /* errors beyond it count linearly; 0: squared throughout. Z = 1 only */
  float eta;       /* priority = eta max + (1 - eta) mean of |TD| over the steps that count */
  bool masked;     /* batches have a mask */
};

/* Device memory; time-major. */
struct q_loss_batch {
  const real *online, *target; /* (T+1, N, A*Z) of the network that is trained, and of the target
                                  network */
  const int32_t *action;       /* (T+1, N); out of range counts as 0 */
  const float *reward;         /* (T+1, N): reward[t+1] follows action t */
  const uint8_t *flags;        /* (T+1, N), enum step_flag */
  const float *weight;         /* (N) of each window's loss */
  const struct device_schedule *schedule;
  const real *mask; /* (T+1, N, A): which actions a return may end in, see network_outputs; NULL:
                       any */
};

struct q_loss;

/* Owner: the caller, with q_loss_destroy (NULL allowed). */
struct q_loss *q_loss_create(struct device *device, const struct q_loss_config *config);
void q_loss_destroy(struct q_loss *self);

/* d_online (T, N, A*Z): the gradient of the loss at the online outputs of the first T steps, 0 for
 * those that do not count: that are truncated, or not among the first `counted`. Loss of a step:
 * Z = 1: weight * 0.5 TD^2 (or Huber's), TD = h(G_t) - Q(x_t, a_t). Z > 1: weight * cross-entropy
 * of the distributions; there the KL divergence stands for |TD|. The loss is their sum, divided by
 * the steps that count (LOSS_MEAN) or by N (LOSS_SUM_OVER_TIME). td (T, N): TD, 0 where a step does
 * not count. priority (N): 0 where none of the window's counts. sums (num_sums_of_q_learning): over
 * those that do, not divided. NaN in a number that a step's return or value depends on, NaN out: in
 * its td, its window's priority and the sums, not in other windows. */
void q_loss_run(struct q_loss *self, real *d_online, real *td, float *priority, real *sums,
                const struct q_loss_batch *batch);

#endif
