/* The reference device's traces and actor-critic losses. Part of ref.c. */
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

/* A ratio, clipped; GAE has none. */
static REAL weight(const struct device_trace *v, size_t i, float limit) {
  REAL x = ratio(v, i);
  return v->kind == TRACE_GAE || x < (REAL)limit ? x : (REAL)limit;
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
      REAL discount = v->flags[next] & STEP_TERMINATED ? 0 : (REAL)v->discount;
      REAL reward = reward_after(v, t, n);
      advantage[i] = weight(v, i, v->pg_rho_clip) * (reward + discount * vs_next - value[i]);
      REAL delta = weight(v, i, v->rho_clip) * (reward + discount * value[next] - value[i]);
      excess = delta + discount * (REAL)v->lambda * weight(v, i, v->c_clip) * excess;
      if (v->kind == TRACE_GAE) advantage[i] = excess;
      vs[i] = vs_next = value[i] + excess;
    }
  }
}

static REAL loss_scale(const struct device_trace *v) {
  if (v->reduction == LOSS_SUM_OVER_TIME) return 1 / (REAL)v->N;
  size_t count = 0;
  for (size_t i = 0; i < (size_t)v->T * v->N; i++) count += !(v->flags[i] & STEP_TRUNCATED);
  return count ? 1 / (REAL)count : 0;
}

static void ref_actor_critic_loss(struct device *d, real *d_log_prob_, real *d_entropy_,
                                  real *d_value_, real *sums_, const struct device_trace *v,
                                  const real *vs_, const real *advantage_, const real *entropy_,
                                  const struct device_schedule *schedule, float baseline_cost,
                                  float kl_cost) {
  (void)d;
  REAL *d_log_prob = (REAL *)d_log_prob_, *d_entropy = (REAL *)d_entropy_,
       *d_value = (REAL *)d_value_;
  const REAL *vs = (const REAL *)vs_, *advantage = (const REAL *)advantage_,
             *entropy = (const REAL *)entropy_;
  const REAL *value = (const REAL *)v->value, *log_prob = (const REAL *)v->log_prob;
  double sums[ACTOR_CRITIC_SUMS] = {0};
  REAL scale = loss_scale(v);
  for (int t = 0; t < v->T; t++)
    for (int n = 0; n < v->N; n++) {
      size_t i = (size_t)t * v->N + n;
      REAL on = !(v->flags[i] & STEP_TRUNCATED);
      d_log_prob[i] = on * scale * (-advantage[i] - (REAL)kl_cost);
      d_entropy[i] = -on * scale * (REAL)schedule->entropy_cost;
      d_value[i] = on * scale * (REAL)baseline_cost * (value[i] - vs[i]);
      if (on == 0) continue;
      sums[SUM_STEPS] += 1;
      sums[SUM_POLICY_LOSS] -= log_prob[i] * advantage[i];
      sums[SUM_BASELINE_LOSS] += 0.5 * (vs[i] - value[i]) * (vs[i] - value[i]);
      sums[SUM_ENTROPY] += entropy[i];
      sums[SUM_KL] += (REAL)v->behaviour[i] - log_prob[i];
      sums[SUM_VALUE] += value[i];
      sums[SUM_REWARD] += reward_after(v, t, n);
      sums[SUM_RHO_CLIPPED] +=
          v->kind == TRACE_VTRACE && ratio(v, i) > (REAL)CLIPPED_FROM * (REAL)v->rho_clip;
      sums[SUM_TARGET] += vs[i];
      sums[SUM_TARGET_SQUARED] += vs[i] * vs[i];
    }
  for (int k = 0; k < ACTOR_CRITIC_SUMS; k++) ((REAL *)sums_)[k] = (REAL)sums[k];
}

#endif
