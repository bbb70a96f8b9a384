/* Transposes small blocks of floats in registers. For cpu_kernels.c and its parts only. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_TRANSPOSE_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_TRANSPOSE_H

#include "learner/device/cpu/cpu_vector.h"

/* Lane masks of one round: keep the lanes whose index lacks the bit, take the other's for the
 * rest (first), and the other way round (second). Lanes of the second vector are numbered from
 * W. */
#if VECTOR_BYTES == 64
#define LANES(f, s)                                                                           \
  (vi) {                                                                                      \
    f(0, s), f(1, s), f(2, s), f(3, s), f(4, s), f(5, s), f(6, s), f(7, s), f(8, s), f(9, s), \
        f(10, s), f(11, s), f(12, s), f(13, s), f(14, s), f(15, s)                            \
  }
#elif VECTOR_BYTES == 32
#define LANES(f, s)                                                        \
  (vi) {                                                                   \
    f(0, s), f(1, s), f(2, s), f(3, s), f(4, s), f(5, s), f(6, s), f(7, s) \
  }
#else
#define LANES(f, s)                    \
  (vi) {                               \
    f(0, s), f(1, s), f(2, s), f(3, s) \
  }
#endif
#define LOW_LANE(i, s) ((i) & (s) ? W + (i) - (s) : (i))
#define HIGH_LANE(i, s) ((i) & (s) ? W + (i) : (i) + (s))

/* Swaps the off-diagonal quarters of every 2s x 2s block; rounds s = 1, 2, 4 ... W/2 transpose
 * the whole. */
#define TRANSPOSE_ROUND(x, s)                                              \
  _Pragma("GCC unroll 16") for (int i = 0; i < W; i++) if (!(i & (s))) {   \
    vf low = __builtin_shuffle(x[i], x[i + (s)], LANES(LOW_LANE, s));      \
    x[i + (s)] = __builtin_shuffle(x[i], x[i + (s)], LANES(HIGH_LANE, s)); \
    x[i] = low;                                                            \
  }

/* In registers: lane j of x[i] becomes lane i of x[j]. */
INLINE void transpose_registers(vf x[W]) {
  TRANSPOSE_ROUND(x, 1)
  TRANSPOSE_ROUND(x, 2)
#if VECTOR_BYTES >= 32
  TRANSPOSE_ROUND(x, 4)
#endif
#if VECTOR_BYTES >= 64
  TRANSPOSE_ROUND(x, 8)
#endif
}

/* One round of adding up: lanes of `a` fall on those without bit s, lanes of `b` on those with
 * it. */
#define ADD_HALVES(a, b, s) \
  (__builtin_shuffle(a, b, LANES(LOW_LANE, s)) + __builtin_shuffle(a, b, LANES(HIGH_LANE, s)))
#define SUM_ROUND(x, s) \
  _Pragma("GCC unroll 8") for (int i = 0; i < (s); i++) x[i] = ADD_HALVES(x[i], x[i + (s)], s);

/* Lane j of the result is the sum of x[j]'s lanes; x is used up. */
INLINE vf sum_each(vf x[W]) {
#if VECTOR_BYTES >= 64
  SUM_ROUND(x, 8)
#endif
#if VECTOR_BYTES >= 32
  SUM_ROUND(x, 4)
#endif
  SUM_ROUND(x, 2)
  SUM_ROUND(x, 1)
  return x[0];
}

/* y (columns, W) = x (rows, columns) transposed; rows, columns <= W; what rows lack is zeros in
 * y. */
static void transpose(float *y, int y_stride, const float *x, int x_stride, int rows, int columns) {
  vf block[W];
#pragma GCC unroll 16
  for (int i = 0; i < W; i++)
    block[i] = i < rows ? load_some(x + (ptrdiff_t)i * x_stride, columns) : (vf){0};
  transpose_registers(block);
#pragma GCC unroll 16
  for (int i = 0; i < W; i++)
    if (i < columns) store(y + (ptrdiff_t)i * y_stride, block[i]);
}

#endif
