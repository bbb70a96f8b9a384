/* Values of actions: how a network's outputs become them, by rules
 * (learner/rules/action_values.rule.h).
 * Upstream: learner/network/network.c, learner/learn. Thread: the device's. */
#ifndef ACORN_LEARNER_NETWORK_ACTION_VALUES_H
#define ACORN_LEARNER_NETWORK_ACTION_VALUES_H

#include "learner/device/device.h"

/* A row holds A*Z numbers, action after action. Z = 1: its values; Z > 1: logits of a distribution
 * over Z atoms, which lie evenly from low to high (low < high), for each action; the value is the
 * distribution's mean. A dueling network's layers give (A*Z advantages, then Z values), of which
 * such a row is made, atom by atom. */
struct action_values {
  int A, Z;
  bool dueling;
  float low, high;
};

/* numbers (rows, A*Z) of a dueling network's rows, `stride` reals apart. */
static inline void action_values_join(struct device *d, real *numbers, const real *raw, int stride,
                                      const struct action_values *v, size_t rows) {
  const struct dueling_rule rule = {
      .run = {.rows = rows * (size_t)v->Z, .A = v->A, .columns = v->Z},
      .advantages = {.x = raw, .stride = stride},
      .value = {.x = device_at_const(d, raw, (size_t)(v->A * v->Z)), .stride = stride},
      .values = {.x = numbers, .stride = v->A * v->Z}};
  d->ops->run_rule(d, RULE_dueling, &rule.run);
}

/* Of that: d_raw (rows `stride` apart) of d_numbers (rows, A*Z). */
static inline void action_values_join_backward(struct device *d, real *d_raw, int stride,
                                               const real *d_numbers, const struct action_values *v,
                                               size_t rows) {
  const struct dueling_backward_rule rule = {
      .run = {.rows = rows * (size_t)v->Z, .A = v->A, .columns = v->Z},
      .d_values = {.x = d_numbers, .stride = v->A * v->Z},
      .d_advantages = {.x = d_raw, .stride = stride},
      .d_value = {.x = device_at(d, d_raw, (size_t)(v->A * v->Z)), .stride = stride}};
  d->ops->run_rule(d, RULE_dueling_backward, &rule.run);
}

/* The values (rows, A) of numbers (rows, A*Z): these themselves, or computed into `room` (rows, A),
 * which may be NULL where Z = 1. */
static inline const real *action_values_of(struct device *d, real *room, const real *numbers,
                                           const struct action_values *v, size_t rows) {
  if (v->Z == 1) return numbers;
  const struct expected_values_rule rule = {.run = {.rows = rows * (size_t)v->A, .A = v->Z},
                                            .logits = {.x = numbers, .stride = v->Z},
                                            .value = room,
                                            .low = v->low,
                                            .high = v->high};
  d->ops->run_rule(d, RULE_expected_values, &rule.run);
  return room;
}

/* y (rows, A) = x where an action may be chosen, MASKED elsewhere (rules/categorical.rule.h); mask:
 * network_outputs.mask. Rows of y and x are `stride` reals apart; y may be x. choices: of the A
 * actions. */
static inline void action_mask_apply(struct device *d, real *y, const real *x, int stride,
                                     const real *mask, const struct space_choices *choices, int A,
                                     size_t rows) {
  const struct mask_rule rule = {.run = {.rows = rows, .A = A},
                                 .x = {.x = x, .stride = stride},
                                 .mask = {.x = mask, .stride = A},
                                 .choices = *choices,
                                 .y = {.x = y, .stride = stride}};
  d->ops->run_rule(d, RULE_mask, &rule.run);
}

/* values (rows, A), or with a mask these masked, in `room` (rows, A), which may be them. */
static inline const real *action_values_masked(struct device *d, real *room, const real *values,
                                               const real *mask, int A, size_t rows) {
  const struct space_choices one = {.count = 0};
  if (!mask) return values;
  action_mask_apply(d, room, values, A, mask, &one, A, rows);
  return room;
}

/* action (B), statistics (B, 2): the value of that action, and the largest one, of values (B, A).
 * uniform (B) in [0, 1): below epsilon (B) the action is a random one; negative: the greedy. */
static inline void action_values_choose(struct device *d, int32_t *action, float *statistics,
                                        const real *values, const float *uniform,
                                        const float *epsilon, int B, int A) {
  const struct epsilon_greedy_rule rule = {.run = {.rows = (size_t)B, .A = A},
                                           .values = {.x = values, .stride = A},
                                           .uniform = uniform,
                                           .epsilon = epsilon,
                                           .action = action,
                                           .value = {.x = statistics, .stride = 2},
                                           .largest = {.x = statistics + 1, .stride = 2}};
  d->ops->run_rule(d, RULE_epsilon_greedy, &rule.run);
}

/* mean (1) over B rows of |a - b| / max |b|, of values (B, A); room: (B). */
static inline void action_values_distance(struct device *d, real *mean, real *room, const real *a,
                                          const real *b, int B, int A) {
  const struct relative_distance_rule rule = {.run = {.rows = (size_t)B, .A = A},
                                              .a = {.x = a, .stride = A},
                                              .b = {.x = b, .stride = A},
                                              .distance = room};
  d->ops->run_rule(d, RULE_relative_distance, &rule.run);
  const struct mean_rule over_rows = {
      .run = {.rows = 1, .A = B}, .numbers = {.x = room, .stride = B}, .mean = mean};
  d->ops->run_rule(d, RULE_mean, &over_rows.run);
}

#endif
