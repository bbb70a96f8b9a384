/* Conversion to bf16, the inputs of convolutions and large products at --precision=bf16.
 * Part of cpu_kernels.c. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_LOW_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_LOW_H

#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_dnnl.h"
#include "learner/device/cpu/cpu_vector.h"

/* Products with fewer weights are as fast in float. */
enum { LOW_WEIGHTS = 1 << 14 };

static bool is_low(struct device *d) {
  return ((struct cpu *)d)->bf16;
}

/* y = x, rounded to the nearest, to even between two. */
static void round_to_bf16(uint16_t *y, const float *x, size_t n) {
  const uint32_t *bits = (const uint32_t *)(const void *)x;
  for (size_t i = 0; i < n; i++) y[i] = (uint16_t)((bits[i] + 0x7fffu + (bits[i] >> 16 & 1)) >> 16);
}

static const uint16_t *low(struct device *d, enum cpu_scratch purpose, const float *x, size_t n) {
  uint16_t *y = (uint16_t *)(void *)cpu_scratch(d, purpose, n / 2 + 1);
  round_to_bf16(y, x, n);
  return y;
}

/* The same for rows that are x_stride numbers apart. */
static const uint16_t *low_rows(struct device *d, const float *x, int x_stride, int B, int I) {
  if (x_stride == I) return low(d, SCRATCH_LOW_X, x, (size_t)B * I);
  uint16_t *y = (uint16_t *)(void *)cpu_scratch(d, SCRATCH_LOW_X, (size_t)B * I / 2 + 1);
  for (int b = 0; b < B; b++)
    round_to_bf16(y + (size_t)b * I, x + (ptrdiff_t)b * x_stride, (size_t)I);
  return y;
}

static bool low_linear(struct device *d, enum activation act, int I, int O) {
  return is_low(d) && act != ACTIVATION_TANH && (int64_t)I * O >= LOW_WEIGHTS;
}

static void low_linear_forward(struct device *d, float *y, const float *x, int x_stride,
                               const float *w, const float *b, bool relu, int B, int I, int O) {
  const uint16_t *rows = low_rows(d, x, x_stride, B, I);
  for (int n; B > 0; B -= n, rows += (size_t)n * I, y += (size_t)n * O) {
    n = cpu_dnnl_rows(B);
    struct cpu_dnnl_product product = {
        .M = n, .N = O, .K = I, .b_kept = true, .bias = true, .relu = relu};
    cpu_dnnl_multiply(d, y, rows, w, b, &product);
  }
}

/* dw = x^T dy unless NULL, dx = dy w^T likewise. dy is what came through the activation already. */
static void low_linear_backward(struct device *d, float *dx, float *dw, const float *dy,
                                const float *x, int x_stride, const float *w, int B, int I, int O) {
  const uint16_t *above = low(d, SCRATCH_LOW_DY, dy, (size_t)B * O);
  struct cpu_dnnl_product weights = {.M = I, .N = O, .K = B, .a_transposed = true};
  if (dw) cpu_dnnl_multiply(d, dw, low_rows(d, x, x_stride, B, I), above, NULL, &weights);
  for (int n; dx && B > 0; B -= n, above += (size_t)n * O, dx += (size_t)n * I) {
    n = cpu_dnnl_rows(B);
    struct cpu_dnnl_product data = {.M = n, .N = I, .K = O, .b_kept = true, .b_transposed = true};
    cpu_dnnl_multiply(d, dx, above, w, NULL, &data);
  }
}

/* ---- the recurrent products of an LSTM: N rows, H units, weights (H, 4H) */

static bool low_lstm(struct device *d, int H) {
  return is_low(d) && 4 * (int64_t)H * H >= LOW_WEIGHTS;
}

/* gates (N, 4H) += h_prev (N, H) wh */
static void low_lstm_gates(struct device *d, float *gates, const float *h_prev, const float *wh,
                           int N, int H) {
  const uint16_t *rows = low(d, SCRATCH_LOW_X, h_prev, (size_t)N * H);
  for (int n; N > 0; N -= n, rows += (size_t)n * H, gates += 4 * (size_t)n * H) {
    n = cpu_dnnl_rows(N);
    struct cpu_dnnl_product product = {.M = n, .N = 4 * H, .K = H, .b_kept = true, .add = true};
    cpu_dnnl_multiply(d, gates, rows, wh, NULL, &product);
  }
}

/* dh_prev (N, H) += dgates (N, 4H) wh^T */
static void low_lstm_hidden(struct device *d, float *dh_prev, const float *dgates, const float *wh,
                            int N, int H) {
  struct cpu_dnnl_product product = {
      .M = N, .N = H, .K = 4 * H, .b_kept = true, .b_transposed = true, .add = true};
  cpu_dnnl_multiply(d, dh_prev, low(d, SCRATCH_LOW_DY, dgates, 4 * (size_t)N * H), wh, NULL,
                    &product);
}

/* dwh (H, 4H) = or += h_prev^T (H, rows) dgates (rows, 4H) */
static void low_lstm_weights(struct device *d, float *dwh, const float *h_prev, const float *dgates,
                             bool add, int rows, int H) {
  struct cpu_dnnl_product product = {
      .M = H, .N = 4 * H, .K = rows, .a_transposed = true, .add = add};
  cpu_dnnl_multiply(d, dwh, low(d, SCRATCH_LOW_X, h_prev, (size_t)rows * H),
                    low(d, SCRATCH_LOW_DY, dgates, 4 * (size_t)rows * H), NULL, &product);
}

#endif
