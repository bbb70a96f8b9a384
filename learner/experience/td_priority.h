/* The first priority of a window in a replay, from what acting left with its steps.
 *
 * It is that of q_loss (learn/q_loss.h), with the network that acted in the place of both of its
 * networks, and needs no forward pass: the value of each action and the largest value of each row
 * were known when the action was chosen. With distributions (Z > 1), which are not kept, TD is that
 * of their means.
 *
 * Thread: any; host memory. Source: Kapturowski et al. 2019, section 2.3. */
#ifndef ACORN_LEARNER_EXPERIENCE_TD_PRIORITY_H
#define ACORN_LEARNER_EXPERIENCE_TD_PRIORITY_H

#include <stdint.h>

/* As in struct q_loss_config. */
struct td_priority_config {
  int T, counted, n_steps;
  float discount;
  float reward_scale, reward_clip;
  float rescaling;
  float eta;
};

/* eta max |TD| + (1 - eta) mean |TD| over the window's steps that count, 0 where none does; NaN if
 * one is NaN. TD_t = h(G_t) - value_t; G_t: the n-step return that ends with the inverse of h of
 * the largest value.
 * Shapes: value, the Q(x_t, a_t) of the action taken, and largest, max_a Q(x_t, a), both on the
 * heads' scale; reward, flags (enum step_flag): T+1 rows in order. */
float td_priority(const struct td_priority_config *config, const float *value, const float *largest,
                  const float *reward, const uint8_t *flags);

#endif
