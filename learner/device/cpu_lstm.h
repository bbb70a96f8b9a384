/* The LSTM: operations lstm_forward and lstm_backward. Part of cpu_kernels.c.
 * Per step one product with the recurrent weights (packed once per call) onto the gates, and one pass over the cells. */
#ifndef ACORN_LEARNER_DEVICE_CPU_LSTM_H
#define ACORN_LEARNER_DEVICE_CPU_LSTM_H

#include "learner/device/cpu.h"
#include "learner/device/cpu_gemm.h"

enum { RESET = 1 };

static bool any_reset(const uint8_t *reset, int N) {
  uint8_t any = 0;
  for (int n = 0; n < N; n++) any |= reset[n];
  return any & RESET;
}

/* y (N, H) = x, with zeros where reset. */
static void copy_unless_reset(float *y, const float *x, const uint8_t *reset, int N, int H) {
  for (int n = 0; n < N; n++, x += H, y += H) {
    if (reset[n] & RESET)
      memset(y, 0, (size_t)H * sizeof *y);
    else
      memcpy(y, x, (size_t)H * sizeof *y);
  }
}

/* ---- forward */

/* One row's cells: gates (4H) in place, h, c (H). */
static void cells_forward(float *h, float *c, float *gates, const float *c_prev, int H) {
  for (int j = 0; j < H; j += W) {
    int lanes = H - j;
    vf gate[4];
    EACH(k, 4) gate[k] = load_some(gates + k * H + j, lanes);
    gate[1] += 1.0f;
    vgates(gate);
    vf cell = gate[1] * load_some(c_prev + j, lanes) + gate[0] * gate[2];
    EACH(k, 4) store_some(gates + k * H + j, gate[k], lanes);
    store_some(c + j, cell, lanes);
    store_some(h + j, gate[3] * vtanh(cell), lanes);
  }
}

static void lstm_forward(struct device *d, real *h_, real *c_, real *gates_, const real *wh,
                         const real *h0, const real *c0, const uint8_t *reset, int T, int N,
                         int H) {
  float *packed = cpu_scratch(d, SCRATCH_PANELS, panels_count(H, 4 * H));
  struct panels weights = panels_choose(packed, (const float *)wh, 4 * H, T * N, H, 4 * H);
  float *zeros = cpu_scratch(d, SCRATCH_STATE, (size_t)(N + 1) * H), *kept = zeros + H;
  memset(zeros, 0, (size_t)H * sizeof *zeros);
  const float *h_prev = (const float *)h0, *c_prev = (const float *)c0;
  float *h = (float *)h_, *c = (float *)c_, *gates = (float *)gates_;
  size_t step = (size_t)N * H;
  for (int t = 0; t < T; t++, reset += N, h += step, c += step, gates += 4 * step) {
    if (any_reset(reset, N)) {
      copy_unless_reset(kept, h_prev, reset, N, H);
      h_prev = kept;
    }
    gemm_run(&(struct gemm){.c = gates,
                            .c_stride = 4 * H,
                            .a = h_prev,
                            .a_row = H,
                            .a_column = 1,
                            .b = weights,
                            .M = N,
                            .N = 4 * H,
                            .K = H,
                            .accumulate = true});
    for (int n = 0; n < N; n++) {
      size_t row = (size_t)n * H;
      cells_forward(h + row, c + row, gates + 4 * row, reset[n] & RESET ? zeros : c_prev + row, H);
    }
    h_prev = h;
    c_prev = c;
  }
}

/* ---- backward */

/* One row's cells: dgates (4H) from dh (H); dc (H) goes from after the step to before it, or to 0 where it started. */
static void cells_backward(float *dgates, float *dc, const float *dh, const float *c,
                           const float *c_prev, const float *gates, float keep, int H) {
  for (int j = 0; j < H; j += W) {
    int lanes = H - j;
    vf gate[4];
    EACH(k, 4) gate[k] = load_some(gates + k * H + j, lanes);
    vf above = load_some(dh + j, lanes), squashed = vtanh(load_some(c + j, lanes));
    vf dcell = load_some(dc + j, lanes) + above * gate[3] * (1.0f - squashed * squashed);
    vf dforget = dcell * load_some(c_prev + j, lanes) * gate[1] * (1.0f - gate[1]);
    store_some(dgates + j, dcell * gate[2] * gate[0] * (1.0f - gate[0]), lanes);
    store_some(dgates + H + j, dforget, lanes);
    store_some(dgates + 2 * H + j, dcell * gate[0] * (1.0f - gate[2] * gate[2]), lanes);
    store_some(dgates + 3 * H + j, above * squashed * gate[3] * (1.0f - gate[3]), lanes);
    store_some(dc + j, dcell * gate[1] * keep, lanes);
  }
}

/* to = from for the rows that are reset, so that the product may run over all rows and be undone there. */
static void copy_reset_rows(float *to, const float *from, const uint8_t *reset, int N, int H) {
  for (int n = 0; n < N; n++)
    if (reset[n] & RESET) memcpy(to + (size_t)n * H, from + (size_t)n * H, (size_t)H * sizeof *to);
}

/* dh of the step before += dgates Wh^T, but nothing through a reset. */
static void hidden_gradient(float *dh_prev, const float *dgates, struct panels weights,
                            float *saved, const uint8_t *reset, int N, int H) {
  copy_reset_rows(saved, dh_prev, reset, N, H);
  gemm_run(&(struct gemm){.c = dh_prev,
                          .c_stride = H,
                          .a = dgates,
                          .a_row = 4 * H,
                          .a_column = 1,
                          .b = weights,
                          .M = N,
                          .N = H,
                          .K = 4 * H,
                          .accumulate = true});
  copy_reset_rows(dh_prev, saved, reset, N, H);
}

/* dwh (H, 4H) = sum over all steps of h_prev^T dgates, as one product. h_prev: room for (T, N, H). */
static void recurrent_weight_gradient(struct device *d, float *dwh, float *h_prev,
                                      const float *dgates, const float *h, const float *h0,
                                      const uint8_t *reset, int T, int N, int H) {
  for (int t = 0; t < T; t++)
    copy_unless_reset(h_prev + (size_t)t * N * H, t ? h + (size_t)(t - 1) * N * H : h0,
                      reset + (size_t)t * N, N, H);
  float *packed = cpu_scratch(d, SCRATCH_PANELS, panels_count(T * N, 4 * H));
  gemm_run(&(struct gemm){.c = dwh,
                          .c_stride = 4 * H,
                          .a = h_prev,
                          .a_row = 1,
                          .a_column = H,
                          .b = panels_choose(packed, dgates, 4 * H, H, T * N, 4 * H),
                          .M = H,
                          .N = 4 * H,
                          .K = T * N});
}

static void lstm_backward(struct device *d, real *dgates_, real *dwh, real *dh_, const real *h,
                          const real *c_, const real *gates_, const real *wh, const real *h0,
                          const real *c0, const uint8_t *reset, int T, int N, int H) {
  unsigned state = flush_tiny();
  size_t step = (size_t)N * H;
  float *packed = cpu_scratch(d, SCRATCH_PANELS, panels_count(4 * H, H));
  struct panels weights = panels_pack_transposed(packed, (const float *)wh, 4 * H, 4 * H, H);
  float *zeros = cpu_scratch(d, SCRATCH_STATE, (size_t)H + step * (size_t)(T + 2));
  float *dc = zeros + H, *saved = dc + step, *h_prev = saved + step;
  memset(zeros, 0, ((size_t)H + step) * sizeof *zeros);
  for (int t = T - 1; t >= 0; t--) {
    const uint8_t *resets = reset + (size_t)t * N;
    const float *c = (const float *)c_ + t * step, *c_prev = t ? c - step : (const float *)c0;
    const float *gates = (const float *)gates_ + 4 * t * step;
    float *dgates = (float *)dgates_ + 4 * t * step, *dh = (float *)dh_ + t * step;
    for (int n = 0; n < N; n++) {
      size_t row = (size_t)n * H;
      bool first = resets[n] & RESET;
      cells_backward(dgates + 4 * row, dc + row, dh + row, c + row, first ? zeros : c_prev + row,
                     gates + 4 * row, first ? 0.0f : 1.0f, H);
    }
    if (t > 0) hidden_gradient(dh - step, dgates, weights, saved, resets, N, H);
  }
  recurrent_weight_gradient(d, (float *)dwh, h_prev, (const float *)dgates_, (const float *)h,
                            (const float *)h0, reset, T, N, H);
  flush_end(state);
}

#endif
