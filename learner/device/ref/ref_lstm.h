/* The reference device's LSTM, one sequence and one step at a time. Part of ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_LSTM_H
#define ACORN_LEARNER_DEVICE_REF_REF_LSTM_H

#include "learner/device/ref/ref.h"

static REAL sigmoid(REAL x) {
  return 1 / (1 + exp(-x));
}

/* One sequence, one step: gates (4H) in place, h, c (H) from h_prev, c_prev (H; NULL: zeros). */
static void lstm_step(REAL *h, REAL *c, REAL *gates, const REAL *wh, const REAL *h_prev,
                      const REAL *c_prev, int H) {
  for (int k = 0; h_prev && k < H; k++)
    for (int j = 0; j < 4 * H; j++) gates[j] += h_prev[k] * wh[(size_t)k * 4 * H + j];
  for (int j = 0; j < H; j++) {
    REAL i = gates[j] = sigmoid(gates[j]);
    REAL f = gates[H + j] = sigmoid(gates[H + j] + 1);
    REAL g = gates[2 * H + j] = tanh(gates[2 * H + j]);
    REAL o = gates[3 * H + j] = sigmoid(gates[3 * H + j]);
    c[j] = f * (c_prev ? c_prev[j] : 0) + i * g;
    h[j] = o * tanh(c[j]);
  }
}

/* The row of x (T, N, H) before step t of sequence n: x0's at t = 0, NULL after a reset. */
static const REAL *previous(const REAL *x, const REAL *x0, const uint8_t *reset, int t, int n,
                            int N, int H) {
  if (reset[(size_t)t * N + n] & STEP_FIRST) return NULL;
  return t > 0 ? x + ((size_t)(t - 1) * N + n) * H : x0 + (size_t)n * H;
}

static void ref_lstm_forward(struct device *d, real *h_, real *c_, real *gates_, const real *wh_,
                             const real *h0_, const real *c0_, const uint8_t *reset, int T, int N,
                             int H) {
  (void)d;
  REAL *h = (REAL *)h_, *c = (REAL *)c_, *gates = (REAL *)gates_;
  const REAL *h0 = (const REAL *)h0_, *c0 = (const REAL *)c0_;
  for (int t = 0; t < T; t++)
    for (int n = 0; n < N; n++) {
      size_t row = (size_t)t * N + n;
      lstm_step(h + row * H, c + row * H, gates + row * 4 * H, (const REAL *)wh_,
                previous(h, h0, reset, t, n, N, H), previous(c, c0, reset, t, n, N, H), H);
    }
}

/* The cell's pointwise part backwards: dgates (4H) from dh (H); dc (H) goes from after the step
 * to before it. */
static void lstm_step_backward(REAL *dgates, REAL *dc, const REAL *dh, const REAL *c,
                               const REAL *c_prev, const REAL *gates, int H) {
  for (int j = 0; j < H; j++) {
    REAL i = gates[j], f = gates[H + j], g = gates[2 * H + j], o = gates[3 * H + j];
    REAL squashed = tanh(c[j]);
    REAL dcell = dc[j] + dh[j] * o * (1 - squashed * squashed);
    dgates[j] = dcell * g * i * (1 - i);
    dgates[H + j] = dcell * (c_prev ? c_prev[j] : 0) * f * (1 - f);
    dgates[2 * H + j] = dcell * i * (1 - g * g);
    dgates[3 * H + j] = dh[j] * squashed * o * (1 - o);
    dc[j] = c_prev ? dcell * f : 0;
  }
}

static REAL *carry_of(struct device *d, int H) {
  struct ref *ref = (struct ref *)d;
  if (ref->carry_size < H) {
    free(ref->carry);
    ref->carry = check_alloc((size_t)H, sizeof(REAL));
    ref->carry_size = H;
  }
  memset(ref->carry, 0, (size_t)H * sizeof(REAL));
  return ref->carry;
}

static void ref_lstm_backward(struct device *d, real *dgates_, real *dwh_, real *dh_,
                              const real *h_, const real *c_, const real *gates_, const real *wh_,
                              const real *h0_, const real *c0_, const uint8_t *reset, int T, int N,
                              int H) {
  REAL *dgates = (REAL *)dgates_, *dwh = (REAL *)dwh_, *dh = (REAL *)dh_;
  const REAL *h = (const REAL *)h_, *c = (const REAL *)c_, *wh = (const REAL *)wh_,
             *gates = (const REAL *)gates_;
  memset(dwh, 0, (size_t)H * 4 * H * sizeof(REAL));
  for (int n = 0; n < N; n++) {
    REAL *dc = carry_of(d, H);
    for (int t = T - 1; t >= 0; t--) {
      size_t row = (size_t)t * N + n;
      REAL *dg = dgates + row * 4 * H;
      const REAL *h_prev = previous(h, (const REAL *)h0_, reset, t, n, N, H);
      lstm_step_backward(dg, dc, dh + row * H, c + row * H,
                         previous(c, (const REAL *)c0_, reset, t, n, N, H), gates + row * 4 * H, H);
      for (int k = 0; h_prev && k < H; k++)
        for (int j = 0; j < 4 * H; j++) {
          dwh[(size_t)k * 4 * H + j] += h_prev[k] * dg[j];
          if (t > 0) dh[(row - N) * H + k] += dg[j] * wh[(size_t)k * 4 * H + j];
        }
    }
  }
}

#endif
