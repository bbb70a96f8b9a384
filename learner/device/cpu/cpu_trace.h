/* Operation trace. Part of cpu_kernels.c. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_TRACE_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_TRACE_H

#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_math.h"

/* The rewards that are learned from. limit 0: not clipped. */
INLINE vf learned_rewards(const float *reward, float scale, float limit, int lanes) {
  vf scaled = scale * load_some(reward, lanes);
  return limit > 0 ? vmax(splat(-limit), vmin(splat(limit), scaled)) : scaled;
}

/* Of the steps into row i and the `lanes` after it. */
INLINE vf rewards_at(const struct device_trace *v, size_t i, int lanes) {
  return learned_rewards(v->reward + i, v->reward_scale, v->reward_clip, lanes);
}

/* a where the bit is clear, b where it is set. */
INLINE vf unless(vi flags, int32_t bit, vf a, vf b) {
  return select_equal(flags & bit, (vi){0}, a, b);
}

/* pi / mu of `lanes` steps from step i on. */
INLINE vf ratio_of(const struct device_trace *v, size_t i, int lanes) {
  return vexp(load_some((const float *)v->log_prob + i, lanes) -
              load_some(v->behaviour + i, lanes));
}

/* The running values of W sequences, from the last step to the first. */
struct running {
  vf value_next, vs_next, excess; /* V(t+1), vs(t+1), vs(t+1) - V(t+1) */
};

/* Step i = (t, n) of `lanes` sequences. */
INLINE void trace_step(float *vs, float *advantage, struct running *running,
                       const struct device_trace *v, size_t i, int lanes, bool gae) {
  size_t next = i + (size_t)v->N;
  vi flags = load_bytes_some(v->flags + i, lanes),
     flags_next = load_bytes_some(v->flags + next, lanes);
  vf value = load_some((const float *)v->value + i, lanes);
  vf reward = rewards_at(v, next, lanes);
  int32_t ends = v->endless ? 0 : STEP_TERMINATED;
  vf discount = unless(flags_next, ends, splat(v->discount), splat(0));
  vf delta = reward + discount * running->value_next - value, gain, excess;
  if (gae) {
    gain = excess = delta + discount * v->lambda * running->excess;
  } else {
    vf rho = ratio_of(v, i, lanes);
    gain = vmin(splat(v->pg_rho_clip), rho) * (reward + discount * running->vs_next - value);
    excess = vmin(splat(v->rho_clip), rho) * delta +
             discount * v->lambda * vmin(splat(v->c_clip), rho) * running->excess;
  }
  running->excess = unless(flags, STEP_TRUNCATED, excess, splat(0));
  running->value_next = value;
  running->vs_next = value + running->excess;
  store_some(vs + i, running->vs_next, lanes);
  store_some(advantage + i, unless(flags, STEP_TRUNCATED, gain, splat(0)), lanes);
}

INLINE void trace_all(float *vs, float *advantage, const struct device_trace *v, bool gae) {
  for (int n = 0; n < v->N; n += W) {
    int lanes = v->N - n;
    vf bootstrap = load_some((const float *)v->value + (size_t)v->T * v->N + n, lanes);
    struct running running = {.value_next = bootstrap, .vs_next = bootstrap, .excess = {0}};
    for (int t = v->T - 1; t >= 0; t--)
      trace_step(vs, advantage, &running, v, (size_t)t * v->N + n, lanes, gae);
  }
}

static void trace(struct device *d, real *vs, real *advantage, const struct device_trace *v) {
  (void)d;
  if (v->kind == TRACE_GAE)
    trace_all((float *)vs, (float *)advantage, v, true);
  else
    trace_all((float *)vs, (float *)advantage, v, false);
}

#endif
