/* Noisy layers: operations factor_noise, noisy_forward, noisy_backward. Part of cpu_kernels.c. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_NOISE_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_NOISE_H

#include <math.h>

#include "common/base/random.h"
#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_dnnl.h"
#include "learner/device/cpu/cpu_vector.h"

/* One at a time: a layer has only as many as inputs and outputs together. */
static void factor_noise(struct device *d, real *noise, uint64_t seed, uint32_t stream,
                         uint32_t first, int n) {
  (void)d;
  for (int i = 0; i < n; i++) {
    float x = (float)random_normal(seed, stream, first + (uint32_t)i, RANDOM_NOISE);
    ((float *)noise)[i] = copysignf(sqrtf(fabsf(x)), x);
  }
}

static void noisy_forward(struct device *d, real *y_, const real *mean_, const real *deviation_,
                          const real *in, const real *out_, int I, int O) {
  float *y = (float *)y_;
  cpu_dnnl_array_changed(d, y);
  const float *mean = (const float *)mean_, *deviation = (const float *)deviation_,
              *out = (const float *)out_;
  for (int i = 0; i < I; i++, y += O, mean += O, deviation += O) {
    float factor = in ? ((const float *)in)[i] : 1;
    for (int o = 0; o < O; o += W) {
      int lanes = O - o;
      vf noise = factor * load_some(out + o, lanes);
      store_some(y + o, load_some(mean + o, lanes) + load_some(deviation + o, lanes) * noise,
                 lanes);
    }
  }
}

static void noisy_backward(struct device *d, real *d_deviation_, const real *dy_, const real *in,
                           const real *out_, int I, int O) {
  (void)d;
  float *d_deviation = (float *)d_deviation_;
  const float *dy = (const float *)dy_, *out = (const float *)out_;
  for (int i = 0; i < I; i++, d_deviation += O, dy += O) {
    float factor = in ? ((const float *)in)[i] : 1;
    for (int o = 0; o < O; o += W) {
      int lanes = O - o;
      vf noise = factor * load_some(out + o, lanes);
      store_some(d_deviation + o, load_some(dy + o, lanes) * noise, lanes);
    }
  }
}

#endif
