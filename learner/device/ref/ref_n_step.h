/* The reference device's n-step returns. Part of ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_N_STEP_H
#define ACORN_LEARNER_DEVICE_REF_REF_N_STEP_H

#include "learner/device/ref/ref.h"

/* reward + discount * the value at row `from`; discount 0: without. */
struct n_step {
  REAL reward, discount;
  size_t from;
};

static struct n_step n_step_from(const struct device_n_step *n, int t, int window) {
  struct n_step g = {.discount = 1};
  int row = t, end = n->n_steps < n->T - t ? t + n->n_steps : n->T;
  while (row < end) {
    size_t i = (size_t)++row * n->N + window;
    g.reward += g.discount * learned_reward(n->reward[i], n->reward_scale, n->reward_clip);
    g.discount *= n->flags[i] & STEP_TERMINATED ? 0 : (REAL)n->discount;
    if (n->flags[i] & (STEP_TERMINATED | STEP_TRUNCATED)) break;
  }
  g.from = (size_t)row * n->N + window;
  return g;
}

static void ref_n_step(struct device *d, real *returned, real *discounts, int32_t *from,
                       const struct device_n_step *n) {
  (void)d;
  const REAL *value = (const REAL *)n->value;
  for (int t = 0; t < n->T; t++)
    for (int window = 0; window < n->N; window++) {
      size_t i = (size_t)t * n->N + window;
      struct n_step g = n_step_from(n, t, window);
      if (g.discount != 0) g.reward += g.discount * value[g.from];
      ((REAL *)returned)[i] = g.reward;
      if (discounts) ((REAL *)discounts)[i] = g.discount;
      if (from) from[i] = (int32_t)g.from;
    }
}

#endif
