/* Optimisers over a flat array of parameters: operations global_norm, adam, rmsprop. Part of
 * cpu_kernels.c. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_OPTIMISER_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_OPTIMISER_H

#include <math.h>

#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_vector.h"

enum {
  NORM_BLOCK = 4096
}; /* summed in float; the blocks' sums in double, so that the size does not cost precision */

static float block_norm2(const float *g, size_t count) {
  vf sum[4] = {{0}};
  size_t i = 0;
  for (; i + 4 * W <= count; i += 4 * W)
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) sum[k] += load(g + i + k * W) * load(g + i + k * W);
  for (; i < count; i += W) {
    vf x = load_some(g + i, lanes_left(count, i));
    sum[0] += x * x;
  }
  return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* Where squares are beyond floats. */
static double block_norm2_of_large(const float *g, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += (double)g[i] * (double)g[i];
  return sum;
}

static void global_norm(struct device *d, real *norm, const real *g, size_t P) {
  (void)d;
  double sum = 0;
  for (size_t i = 0; i < P; i += NORM_BLOCK) {
    const float *block = (const float *)g + i;
    size_t count = P - i < NORM_BLOCK ? P - i : NORM_BLOCK;
    float norm2 = block_norm2(block, count);
    sum += isinf(norm2) ? block_norm2_of_large(block, count) : (double)norm2;
  }
  *(float *)norm = (float)sqrt(sum);
}

static void require_finite(struct device *d, real *norm, const real *x, size_t n, real *failed) {
  (void)d;
  for (size_t i = 0; i < n; i++)
    if (!isfinite(((const float *)x)[i])) *(float *)norm = NAN;
  if (!failed) return;
  if (!isfinite(*(float *)failed)) *(float *)norm = NAN;
  if (!isfinite(*(float *)norm)) *(float *)failed = NAN;
}

/* What every gradient is multiplied by before the optimiser sees it. */
static float clip_scale(const real *norm, float max_norm) {
  float n = *(const float *)norm;
  return max_norm > 0 && n > max_norm ? max_norm / n : 1.0f;
}

struct adam {
  float *p, *m, *v;
  const float *g;
  float scale, rate, unbias, beta1, beta2, epsilon;
  size_t P;
};

enum { ADAM_PART = 1 << 13 };

static void adam_part(void *adam_, int part) {
  const struct adam a = *(const struct adam *)adam_;
  size_t end = (size_t)(part + 1) * ADAM_PART < a.P ? (size_t)(part + 1) * ADAM_PART : a.P;
  for (size_t i = (size_t)part * ADAM_PART; i < end; i += W) {
    int lanes = lanes_left(end, i);
    vf g = load_some(a.g + i, lanes) * a.scale;
    vf mean = a.beta1 * load_some(a.m + i, lanes) + (1 - a.beta1) * g;
    vf square = a.beta2 * load_some(a.v + i, lanes) + (1 - a.beta2) * g * g;
    store_some(a.m + i, mean, lanes);
    store_some(a.v + i, square, lanes);
    store_some(a.p + i,
               load_some(a.p + i, lanes) - a.rate * mean / (vsqrt(square * a.unbias) + a.epsilon),
               lanes);
  }
}

static void adam(struct device *d, real *p, real *m, real *v, const real *g, const real *norm,
                 const struct device_schedule *schedule, float max_norm, float beta1, float beta2,
                 float epsilon, bool epsilon_hat, size_t P) {
  if (!isfinite(*(const float *)norm)) return;
  unsigned state = flush_tiny();
  double lr = (double)schedule->learning_rate, step = (double)schedule->step;
  struct adam a = {.p = (float *)p,
                   .m = (float *)m,
                   .v = (float *)v,
                   .g = (const float *)g,
                   .scale = clip_scale(norm, max_norm),
                   .rate = (float)(lr / (1 - pow((double)beta1, step))),
                   .unbias = (float)(1 / (1 - pow((double)beta2, step))),
                   .beta1 = beta1,
                   .beta2 = beta2,
                   .epsilon = epsilon,
                   .P = P};
  if (epsilon_hat) a.epsilon *= sqrtf(a.unbias);
  cpu_pool_run(cpu_pool_for(d, P), adam_part, &a, (int)((P + ADAM_PART - 1) / ADAM_PART));
  flush_end(state);
}

static void rmsprop(struct device *d, real *p_, real *ms_, real *mom_, const real *g_,
                    const real *norm, const struct device_schedule *schedule, float max_norm,
                    float decay, float momentum, float epsilon, size_t P) {
  (void)d;
  if (!isfinite(*(const float *)norm)) return;
  unsigned state = flush_tiny();
  float *p = (float *)p_, *ms = (float *)ms_, *mom = (float *)mom_;
  float scale = clip_scale(norm, max_norm), lr = schedule->learning_rate;
  for (size_t i = 0; i < P; i += W) {
    int lanes = lanes_left(P, i);
    vf g = load_some((const float *)g_ + i, lanes) * scale;
    vf square = decay * load_some(ms + i, lanes) + (1 - decay) * g * g;
    vf move = momentum * load_some(mom + i, lanes) + lr * g / vsqrt(square + epsilon);
    store_some(ms + i, square, lanes);
    store_some(mom + i, move, lanes);
    store_some(p + i, load_some(p + i, lanes) - move, lanes);
  }
  flush_end(state);
}

#endif
