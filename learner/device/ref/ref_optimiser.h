/* The reference device's gradient norm and optimisers. Part of ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_OPTIMISER_H
#define ACORN_LEARNER_DEVICE_REF_REF_OPTIMISER_H

#include "learner/device/ref/ref.h"

static void ref_global_norm(struct device *d, real *norm, const real *g, size_t P) {
  (void)d;
  double sum = 0;
  for (size_t i = 0; i < P; i++) sum += (double)((const REAL *)g)[i] * (double)((const REAL *)g)[i];
  *(REAL *)norm = (REAL)sqrt(sum);
}

static void ref_require_finite(struct device *d, real *norm, const real *x, size_t n,
                               real *failed) {
  (void)d;
  for (size_t i = 0; i < n; i++)
    if (!isfinite(((const REAL *)x)[i])) *(REAL *)norm = NAN;
  if (!failed) return;
  if (!isfinite(*(REAL *)failed)) *(REAL *)norm = NAN;
  if (!isfinite(*(REAL *)norm)) *(REAL *)failed = NAN;
}

/* What every gradient is multiplied by before the optimiser sees it. */
static REAL clip_scale(const real *norm, float max_norm) {
  REAL n = *(const REAL *)norm;
  return max_norm > 0 && n > (REAL)max_norm ? (REAL)max_norm / n : 1;
}

static void ref_adam(struct device *d, real *p_, real *m_, real *v_, const real *g_,
                     const real *norm, const struct device_schedule *schedule, float max_norm,
                     float beta1, float beta2, float epsilon, bool epsilon_hat, size_t P) {
  (void)d;
  if (!isfinite(*(const REAL *)norm)) return;
  double step = (double)schedule->step;
  REAL *p = (REAL *)p_, *m = (REAL *)m_, *v = (REAL *)v_;
  REAL scale = clip_scale(norm, max_norm), b1 = (REAL)beta1, b2 = (REAL)beta2;
  REAL unbias_m = (REAL)(1 / (1 - pow((double)beta1, step)));
  REAL unbias_v = (REAL)(1 / (1 - pow((double)beta2, step)));
  REAL add = epsilon_hat ? (REAL)epsilon * sqrt(unbias_v) : (REAL)epsilon;
  for (size_t i = 0; i < P; i++) {
    REAL g = ((const REAL *)g_)[i] * scale;
    m[i] = b1 * m[i] + (1 - b1) * g;
    v[i] = b2 * v[i] + (1 - b2) * g * g;
    p[i] -= (REAL)schedule->learning_rate * (m[i] * unbias_m) / (sqrt(v[i] * unbias_v) + add);
  }
}

static void ref_rmsprop(struct device *d, real *p_, real *ms_, real *mom_, const real *g_,
                        const real *norm, const struct device_schedule *schedule, float max_norm,
                        float decay, float momentum, float epsilon, size_t P) {
  (void)d;
  if (!isfinite(*(const REAL *)norm)) return;
  REAL *p = (REAL *)p_, *ms = (REAL *)ms_, *mom = (REAL *)mom_;
  REAL scale = clip_scale(norm, max_norm);
  for (size_t i = 0; i < P; i++) {
    REAL g = ((const REAL *)g_)[i] * scale;
    ms[i] = (REAL)decay * ms[i] + (1 - (REAL)decay) * g * g;
    mom[i] =
        (REAL)momentum * mom[i] + (REAL)schedule->learning_rate * g / sqrt(ms[i] + (REAL)epsilon);
    p[i] -= mom[i];
  }
}

#endif
