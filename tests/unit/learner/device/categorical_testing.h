/* The rules of the categorical distribution over A actions, one choice, as functions. Rows of
 * logits are `stride` reals apart. */
#ifndef ACORN_TESTS_UNIT_LEARNER_DEVICE_CATEGORICAL_TESTING_H
#define ACORN_TESTS_UNIT_LEARNER_DEVICE_CATEGORICAL_TESTING_H

#include "learner/device/device.h"

/* action (B), log_prob (B) of it, for uniform (B) in [0, 1); greedy where it is negative. */
static inline void categorical_sample(struct device *d, int32_t *action, float *log_prob,
                                      const real *logits, int stride, const float *uniform, int B,
                                      int A) {
  const struct categorical_sample_rule rule = {.run = {.rows = (size_t)B, .A = A},
                                               .logits = {.x = logits, .stride = stride},
                                               .uniform = uniform,
                                               .action = action,
                                               .log_prob = log_prob};
  d->ops->run_rule(d, RULE_categorical_sample, &rule.run);
}

/* log_prob (B) of the given actions, entropy (B). Actions out of range count as 0. */
static inline void categorical_evaluate(struct device *d, real *log_prob, real *entropy,
                                        const real *logits, int stride, const int32_t *action,
                                        int B, int A) {
  const struct categorical_evaluate_rule rule = {.run = {.rows = (size_t)B, .A = A},
                                                 .logits = {.x = logits, .stride = stride},
                                                 .action = action,
                                                 .log_prob = log_prob,
                                                 .entropy = entropy};
  d->ops->run_rule(d, RULE_categorical_evaluate, &rule.run);
}

/* d_logits (rows d_stride apart) = d_log_prob (B) * d log_prob/d logits + d_entropy (B) * d
 * entropy/d logits. */
static inline void categorical_backward(struct device *d, real *d_logits, int d_stride,
                                        const real *logits, int stride, const int32_t *action,
                                        const real *d_log_prob, const real *d_entropy, int B,
                                        int A) {
  const struct categorical_backward_rule rule = {.run = {.rows = (size_t)B, .A = A},
                                                 .logits = {.x = logits, .stride = stride},
                                                 .action = action,
                                                 .d_log_prob = d_log_prob,
                                                 .d_entropy = d_entropy,
                                                 .d_logits = {.x = d_logits, .stride = d_stride}};
  d->ops->run_rule(d, RULE_categorical_backward, &rule.run);
}

#endif
