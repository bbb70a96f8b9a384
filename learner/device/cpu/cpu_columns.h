/* Columns (A, W): of W rows with A numbers each, a lane a row. Part of cpu_kernels.c. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_COLUMNS_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_COLUMNS_H

#include "learner/device/cpu/cpu_vector.h"

/* columns = W rows, or the first `lanes` and zeros. */
INLINE void columns_read(float *columns, const float *x, int stride, int lanes, int A) {
  for (int a = 0; a < A; a++) store(columns + (size_t)a * W, load_column(x + a, stride, lanes));
}

INLINE void columns_write(float *y, int stride, const float *columns, int lanes, int A) {
  for (int a = 0; a < A; a++) store_column(y + a, stride, load(columns + (size_t)a * W), lanes);
}

INLINE int at_most_lanes(int left) {
  return left < W ? left : W;
}

/* columns[index] of every lane. */
INLINE vf chosen(const float *columns, vi index, int A) {
  vf x = load(columns);
  for (int a = 1; a < A; a++)
    x = select_equal(index, splat_int(a), load(columns + (size_t)a * W), x);
  return x;
}

#endif
