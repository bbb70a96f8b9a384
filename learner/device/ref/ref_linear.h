/* The reference device's linear layer: y (B, O) = act(x (B, I) w (I, O) + b (O)). Part of ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_LINEAR_H
#define ACORN_LEARNER_DEVICE_REF_REF_LINEAR_H

#include "learner/device/ref/ref.h"

static void ref_linear_forward(struct device *d, real *y_, const real *x_, int x_stride,
                               const real *w_, const real *b_, enum activation act, int B, int I,
                               int O) {
  (void)d;
  REAL *y = (REAL *)y_;
  const REAL *x = (const REAL *)x_, *w = (const REAL *)w_, *bias = (const REAL *)b_;
  for (int b = 0; b < B; b++)
    for (int o = 0; o < O; o++) {
      REAL sum = bias[o];
      for (int i = 0; i < I; i++) sum += x[(size_t)b * x_stride + i] * w[(size_t)i * O + o];
      y[(size_t)b * O + o] = activate(act, sum);
    }
}

static void ref_linear_backward(struct device *d, real *dx_, real *dw_, real *db_, real *dy_,
                                const real *y_, const real *x_, int x_stride, const real *w_,
                                enum activation act, int B, int I, int O) {
  (void)d;
  REAL *dx = (REAL *)dx_, *dw = (REAL *)dw_, *db = (REAL *)db_, *dy = (REAL *)dy_;
  const REAL *y = (const REAL *)y_, *x = (const REAL *)x_, *w = (const REAL *)w_;
  if (act != ACTIVATION_NONE)
    for (size_t i = 0; i < (size_t)B * O; i++) dy[i] *= slope(act, y[i]);
  if (dw) memset(dw, 0, (size_t)I * O * sizeof(REAL));
  memset(db, 0, (size_t)O * sizeof(REAL));
  for (int b = 0; b < B; b++)
    for (int o = 0; o < O; o++) {
      REAL g = dy[(size_t)b * O + o];
      db[o] += g;
      for (int i = 0; dw && i < I; i++) dw[(size_t)i * O + o] += x[(size_t)b * x_stride + i] * g;
    }
  for (int b = 0; dx && b < B; b++)
    for (int i = 0; i < I; i++) {
      REAL sum = 0;
      for (int o = 0; o < O; o++) sum += dy[(size_t)b * O + o] * w[(size_t)i * O + o];
      dx[(size_t)b * I + i] = sum;
    }
}

#endif
