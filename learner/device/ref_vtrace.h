/* The reference device's V-trace targets and losses. Part of ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_VTRACE_H
#define ACORN_LEARNER_DEVICE_REF_VTRACE_H

#include "learner/device/ref.h"

static REAL reward_after(const struct device_vtrace *v, int t, int n) {
  REAL reward = (REAL)v->reward_scale * (REAL)v->reward[(size_t)(t + 1) * v->N + n];
  return v->reward_clip > 0 ? clip(reward, (REAL)v->reward_clip) : reward;
}

static REAL ratio(const struct device_vtrace *v, size_t i) {
  return exp(((const REAL *)v->log_prob)[i] - (REAL)v->behaviour[i]);
}

static REAL at_most(REAL x, float limit) {
  return x < (REAL)limit ? x : (REAL)limit;
}

static void ref_vtrace(struct device *d, real *vs_, real *advantage_,
                       const struct device_vtrace *v) {
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
      REAL discount = v->flags[next] & STEP_TERMINATED ? 0 : (REAL)v->discount;
      REAL rho = ratio(v, i), reward = reward_after(v, t, n);
      advantage[i] = at_most(rho, v->pg_rho_clip) * (reward + discount * vs_next - value[i]);
      REAL delta = at_most(rho, v->rho_clip) * (reward + discount * value[next] - value[i]);
      excess = delta + discount * (REAL)v->lambda * at_most(rho, v->c_clip) * excess;
      vs[i] = vs_next = value[i] + excess;
    }
  }
}

static REAL unmasked_steps(const struct device_vtrace *v) {
  size_t count = 0;
  for (size_t i = 0; i < (size_t)v->T * v->N; i++) count += !(v->flags[i] & STEP_TRUNCATED);
  return (REAL)count;
}

static void ref_vtrace_loss(struct device *d, real *d_log_prob_, real *d_entropy_, real *d_value_,
                            real *sums_, const struct device_vtrace *v, const real *vs_,
                            const real *advantage_, const real *entropy_, float baseline_cost,
                            float entropy_cost, float kl_cost) {
  (void)d;
  REAL *d_log_prob = (REAL *)d_log_prob_, *d_entropy = (REAL *)d_entropy_,
       *d_value = (REAL *)d_value_;
  const REAL *vs = (const REAL *)vs_, *advantage = (const REAL *)advantage_,
             *entropy = (const REAL *)entropy_;
  const REAL *value = (const REAL *)v->value, *log_prob = (const REAL *)v->log_prob;
  double sums[8] = {0};
  REAL steps = unmasked_steps(v), scale = steps > 0 ? 1 / steps : 0;
  for (int t = 0; t < v->T; t++)
    for (int n = 0; n < v->N; n++) {
      size_t i = (size_t)t * v->N + n;
      REAL on = !(v->flags[i] & STEP_TRUNCATED);
      d_log_prob[i] = on * scale * (-advantage[i] - (REAL)kl_cost);
      d_entropy[i] = -on * scale * (REAL)entropy_cost;
      d_value[i] = on * scale * (REAL)baseline_cost * (value[i] - vs[i]);
      if (on == 0) continue;
      sums[0] += 1;
      sums[1] -= log_prob[i] * advantage[i];
      sums[2] += 0.5 * (vs[i] - value[i]) * (vs[i] - value[i]);
      sums[3] += entropy[i];
      sums[4] += (REAL)v->behaviour[i] - log_prob[i];
      sums[5] += value[i];
      sums[6] += reward_after(v, t, n);
      sums[7] += ratio(v, i) > (REAL)v->rho_clip;
    }
  for (int k = 0; k < 8; k++) ((REAL *)sums_)[k] = (REAL)sums[k];
}

#endif
