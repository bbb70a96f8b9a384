/* V-trace and its losses: operations vtrace and vtrace_loss. Part of cpu_kernels.c. */
#ifndef ACORN_LEARNER_DEVICE_CPU_VTRACE_H
#define ACORN_LEARNER_DEVICE_CPU_VTRACE_H

#include "learner/device/cpu.h"
#include "learner/device/cpu_math.h"

/* The rewards that are learned from, of the steps into row i and the `lanes` after it. */
INLINE vf rewards_at(const struct device_vtrace *v, size_t i, int lanes) {
  vf reward = v->reward_scale * load_some(v->reward + i, lanes), limit = splat(v->reward_clip);
  return v->reward_clip > 0 ? vmax(-limit, vmin(limit, reward)) : reward;
}

/* a where the bit is clear, b where it is set. */
INLINE vf unless(vi flags, int32_t bit, vf a, vf b) {
  return select_equal(flags & bit, (vi){0}, a, b);
}

/* pi / mu of `lanes` steps from step i on. */
INLINE vf ratio_of(const struct device_vtrace *v, size_t i, int lanes) {
  return vexp(load_some((const float *)v->log_prob + i, lanes) -
              load_some(v->behaviour + i, lanes));
}

/* The running values of W sequences, from the last step to the first. */
struct trace {
  vf value_next, vs_next, excess; /* V(t+1), vs(t+1), vs(t+1) - V(t+1) */
};

/* Step i = (t, n) of `lanes` sequences. */
INLINE void vtrace_step(float *vs, float *advantage, struct trace *trace,
                        const struct device_vtrace *v, size_t i, int lanes) {
  size_t next = i + (size_t)v->N;
  vi flags = load_bytes_some(v->flags + i, lanes),
     flags_next = load_bytes_some(v->flags + next, lanes);
  vf value = load_some((const float *)v->value + i, lanes);
  vf reward = rewards_at(v, next, lanes);
  vf discount = unless(flags_next, STEP_TERMINATED, splat(v->discount), splat(0));
  vf rho = ratio_of(v, i, lanes);
  vf gain = vmin(splat(v->pg_rho_clip), rho) * (reward + discount * trace->vs_next - value);
  vf delta = vmin(splat(v->rho_clip), rho) * (reward + discount * trace->value_next - value);
  vf excess = delta + discount * v->lambda * vmin(splat(v->c_clip), rho) * trace->excess;
  trace->excess = unless(flags, STEP_TRUNCATED, excess, splat(0));
  trace->value_next = value;
  trace->vs_next = value + trace->excess;
  store_some(vs + i, trace->vs_next, lanes);
  store_some(advantage + i, unless(flags, STEP_TRUNCATED, gain, splat(0)), lanes);
}

static void vtrace(struct device *d, real *vs, real *advantage, const struct device_vtrace *v) {
  (void)d;
  for (int n = 0; n < v->N; n += W) {
    int lanes = v->N - n;
    vf bootstrap = load_some((const float *)v->value + (size_t)v->T * v->N + n, lanes);
    struct trace trace = {.value_next = bootstrap, .vs_next = bootstrap, .excess = {0}};
    for (int t = v->T - 1; t >= 0; t--)
      vtrace_step((float *)vs, (float *)advantage, &trace, v, (size_t)t * v->N + n, lanes);
  }
}

/* ---- losses */

/* Arrays (T*N) of vtrace_loss, and what multiplies them. */
struct loss {
  float *d_log_prob, *d_entropy, *d_value;
  const float *vs, *advantage, *entropy;
  float scale, baseline, entropy_cost, kl_cost;
};

/* Steps i .. i + lanes: gradients, and their share of the eight sums. */
INLINE void loss_step(const struct loss *loss, vf sums[8], const struct device_vtrace *v, size_t i,
                      int lanes) {
  vi flags = load_bytes_some(v->flags + i, lanes);
  vf on = unless(flags, STEP_TRUNCATED, splat(1), splat(0));
  for (int k = lanes; k < W; k++) on[k] = 0;
  vf scale = on * loss->scale;
  vf advantage = load_some(loss->advantage + i, lanes),
     log_prob = load_some((const float *)v->log_prob + i, lanes);
  vf value = load_some((const float *)v->value + i, lanes),
     behaviour = load_some(v->behaviour + i, lanes);
  vf error = value - load_some(loss->vs + i, lanes);
  vf reward = rewards_at(v, i + (size_t)v->N, lanes);
  store_some(loss->d_log_prob + i, -scale * (advantage + loss->kl_cost), lanes);
  store_some(loss->d_entropy + i, -scale * loss->entropy_cost, lanes);
  store_some(loss->d_value + i, scale * loss->baseline * error, lanes);
  sums[0] += on;
  sums[1] -= on * log_prob * advantage;
  sums[2] += on * (0.5f * error * error);
  sums[3] += on * load_some(loss->entropy + i, lanes);
  sums[4] += on * (behaviour - log_prob);
  sums[5] += on * value;
  sums[6] += on * reward;
  sums[7] += select_less(splat(v->rho_clip), vexp(log_prob - behaviour), on, splat(0));
}

static int unmasked_steps(const uint8_t *flags, size_t n) {
  int count = 0;
  for (size_t i = 0; i < n; i++) count += !(flags[i] & STEP_TRUNCATED);
  return count;
}

static void vtrace_loss(struct device *d, real *d_log_prob, real *d_entropy, real *d_value,
                        real *sums, const struct device_vtrace *v, const real *vs,
                        const real *advantage, const real *entropy, float baseline_cost,
                        float entropy_cost, float kl_cost) {
  (void)d;
  size_t count = (size_t)v->T * v->N;
  int steps = unmasked_steps(v->flags, count);
  struct loss loss = {.d_log_prob = (float *)d_log_prob,
                      .d_entropy = (float *)d_entropy,
                      .d_value = (float *)d_value,
                      .vs = (const float *)vs,
                      .advantage = (const float *)advantage,
                      .entropy = (const float *)entropy,
                      .scale = steps > 0 ? 1.0f / (float)steps : 0,
                      .baseline = baseline_cost,
                      .entropy_cost = entropy_cost,
                      .kl_cost = kl_cost};
  vf total[8] = {{0}};
  for (size_t i = 0; i < count; i += W)
    loss_step(&loss, total, v, i, count - i < W ? (int)(count - i) : W);
  for (int k = 0; k < 8; k++) ((float *)sums)[k] = sum_lanes(total[k]);
}

#endif
