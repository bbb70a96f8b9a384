/* Operation n_step: a lane is a window. Part of cpu_kernels.c. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_N_STEP_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_N_STEP_H

#include "learner/device/cpu/cpu_columns.h"
#include "learner/device/cpu/cpu_trace.h"

/* reward + discount * the value at `row`; discount 0: without. */
struct n_steps {
  vf reward, discount;
  vi row; /* its time */
};

/* Of step t of W windows. */
INLINE struct n_steps n_steps_from(const struct device_n_step *n, int t, int window, int lanes) {
  struct n_steps g = {.reward = {0}, .discount = splat(1), .row = splat_int(t)};
  vi open = splat_int(-1);
  int end = n->n_steps < n->T - t ? t + n->n_steps : n->T;
  for (int row = t + 1; row <= end; row++) {
    size_t i = (size_t)row * n->N + window;
    vi flags = load_bytes_some(n->flags + i, lanes);
    vf reward = learned_rewards(n->reward + i, n->reward_scale, n->reward_clip, lanes);
    g.reward += choose(open, g.discount * reward, splat(0));
    vf further = unless(flags, STEP_TERMINATED, g.discount * n->discount, splat(0));
    g.discount = choose(open, further, g.discount);
    g.row = (open & row) | (~open & g.row);
    open &= (flags & (STEP_TERMINATED | STEP_TRUNCATED)) == 0;
  }
  return g;
}

static void n_step(struct device *d, real *returned, real *discounts, int32_t *from,
                   const struct device_n_step *n) {
  (void)d;
  for (int t = 0; t < n->T; t++)
    for (int window = 0; window < n->N; window += W) {
      int lanes = at_most_lanes(n->N - window);
      size_t i = (size_t)t * n->N + window;
      struct n_steps g = n_steps_from(n, t, window, lanes);
      vi row = g.row * n->N + window;
      vf value = {0};
      for (int k = 0; k < lanes; k++) {
        row[k] += k;
        value[k] = ((const float *)n->value)[row[k]];
      }
      vf end = select_equal_floats(g.discount, splat(0), splat(0), g.discount * value);
      store_some((float *)returned + i, g.reward + end, lanes);
      if (discounts) store_some((float *)discounts + i, g.discount, lanes);
      if (from) store_int_some(from + i, row, lanes);
    }
}

#endif
