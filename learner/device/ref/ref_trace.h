/* The reference device's traces. Part of ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_TRACE_H
#define ACORN_LEARNER_DEVICE_REF_REF_TRACE_H

#include "learner/device/ref/ref.h"

static REAL reward_after(const struct device_trace *v, int t, int n) {
  return learned_reward(v->reward[(size_t)(t + 1) * v->N + n], v->reward_scale, v->reward_clip);
}

static REAL ratio(const struct device_trace *v, size_t i) {
  if (v->kind == TRACE_GAE) return 1;
  return exp(((const REAL *)v->log_prob)[i] - (REAL)v->behaviour[i]);
}

/* A ratio, clipped; NaN stays NaN. GAE has none. */
static REAL weight(const struct device_trace *v, size_t i, float limit) {
  REAL x = ratio(v, i);
  return v->kind != TRACE_GAE && (REAL)limit < x ? (REAL)limit : x;
}

static void ref_trace(struct device *d, real *vs_, real *advantage_, const struct device_trace *v) {
  (void)d;
  REAL *vs = (REAL *)vs_, *advantage = (REAL *)advantage_;
  const REAL *value = (const REAL *)v->value;
  for (int n = 0; n < v->N; n++) {
    REAL vs_next = value[(size_t)v->T * v->N + n], excess = 0; /* excess: vs(t+1) - V(t+1) */
    for (int t = v->T - 1; t >= 0; t--) {
      size_t i = (size_t)t * v->N + n, next = i + v->N;
      if (v->flags[i] & STEP_TRUNCATED) {
        vs[i] = vs_next = value[i];
        advantage[i] = excess = 0;
        continue;
      }
      REAL discount = !v->endless && v->flags[next] & STEP_TERMINATED ? 0 : (REAL)v->discount;
      REAL reward = reward_after(v, t, n);
      advantage[i] = weight(v, i, v->pg_rho_clip) * (reward + discount * vs_next - value[i]);
      REAL delta = weight(v, i, v->rho_clip) * (reward + discount * value[next] - value[i]);
      excess = delta + discount * (REAL)v->lambda * weight(v, i, v->c_clip) * excess;
      if (v->kind == TRACE_GAE) advantage[i] = excess;
      vs[i] = vs_next = value[i] + excess;
    }
  }
}

#endif
