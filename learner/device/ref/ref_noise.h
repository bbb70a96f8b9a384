/* The reference device's noisy layers. Part of ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_NOISE_H
#define ACORN_LEARNER_DEVICE_REF_REF_NOISE_H

#include "common/base/philox.h"
#include "learner/device/ref/ref.h"

static void ref_random_uniforms(struct device *d, float *uniform, uint64_t seed,
                                const struct device_draws *draws, enum random_purpose purpose,
                                int B) {
  (void)d;
  for (int b = 0; b < B; b++)
    for (int k = 0; k < draws->count; k++)
      *uniform++ = draws->greedy[b] ? -1
                                    : random_uniform(seed, draws->environment[b], draws->life[b],
                                                     draws->step[b], philox_purpose(purpose, k));
}

static void ref_factor_noise(struct device *d, real *noise, uint64_t seed, uint32_t stream,
                             uint32_t first, int n) {
  (void)d;
  for (int i = 0; i < n; i++) {
    double x = random_normal(seed, stream, first + (uint32_t)i, RANDOM_NOISE);
    ((REAL *)noise)[i] = (REAL)copysign(sqrt(fabs(x)), x);
  }
}

/* Noise of the weight (i, o). */
static REAL noise_at(const real *in, const real *out, int i, int o) {
  return (in ? ((const REAL *)in)[i] : 1) * ((const REAL *)out)[o];
}

static void ref_noisy_forward(struct device *d, real *y, const real *mean, const real *deviation,
                              const real *in, const real *out, int I, int O) {
  (void)d;
  for (int i = 0; i < I; i++)
    for (int o = 0; o < O; o++) {
      size_t k = (size_t)i * O + o;
      ((REAL *)y)[k] =
          ((const REAL *)mean)[k] + ((const REAL *)deviation)[k] * noise_at(in, out, i, o);
    }
}

static void ref_noisy_backward(struct device *d, real *d_deviation, const real *dy, const real *in,
                               const real *out, int I, int O) {
  (void)d;
  for (int i = 0; i < I; i++)
    for (int o = 0; o < O; o++) {
      size_t k = (size_t)i * O + o;
      ((REAL *)d_deviation)[k] = ((const REAL *)dy)[k] * noise_at(in, out, i, o);
    }
}

#endif
