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

static void global_norm(struct device *d, real *norm, const real *g, size_t P) {
  (void)d;
  double sum = 0;
  for (size_t i = 0; i < P; i += NORM_BLOCK)
    sum += (double)block_norm2((const float *)g + i, P - i < NORM_BLOCK ? P - i : NORM_BLOCK);
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

static void adam(struct device *d, real *p_, real *m_, real *v_, const real *g_, const real *norm,
                 const struct device_schedule *schedule, float max_norm, float beta1, float beta2,
                 float epsilon, bool epsilon_hat, size_t P) {
  (void)d;
  if (!isfinite(*(const float *)norm)) return;
  unsigned state = flush_tiny();
  float *p = (float *)p_, *m = (float *)m_, *v = (float *)v_;
  float scale = clip_scale(norm, max_norm);
  double lr = (double)schedule->learning_rate, step = (double)schedule->step;
  float rate = (float)(lr / (1 - pow((double)beta1, step)));
  float unbias = (float)(1 / (1 - pow((double)beta2, step)));
  if (epsilon_hat) epsilon *= sqrtf(unbias);
  for (size_t i = 0; i < P; i += W) {
    int lanes = lanes_left(P, i);
    vf g = load_some((const float *)g_ + i, lanes) * scale;
    vf mean = beta1 * load_some(m + i, lanes) + (1 - beta1) * g;
    vf square = beta2 * load_some(v + i, lanes) + (1 - beta2) * g * g;
    store_some(m + i, mean, lanes);
    store_some(v + i, square, lanes);
    store_some(p + i, load_some(p + i, lanes) - rate * mean / (vsqrt(square * unbias) + epsilon),
               lanes);
  }
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
