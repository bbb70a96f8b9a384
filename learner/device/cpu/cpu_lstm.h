/* The LSTM: operations lstm_forward and lstm_backward. Part of cpu_kernels.c. Per step one
 * product with the recurrent weights (packed once per call, or in bf16) onto the gates, and one
 * pass over the cells. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_LSTM_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_LSTM_H

#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_gemm.h"
#include "learner/device/cpu/cpu_low.h"

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
  bool in_bf16 = low_lstm(d, H);
  struct panels weights = {0};
  if (!in_bf16)
    weights = panels_choose(cpu_scratch(d, SCRATCH_PANELS, panels_count(H, 4 * H)),
                            (const float *)wh, 4 * H, T * N, H, 4 * H);
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
    if (in_bf16)
      low_lstm_gates(d, gates, h_prev, (const float *)wh, N, H);
    else
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

/* One row's cells: dgates (4H) from dh (H); dc (H) goes from after the step to before it, or to
 * 0 where it started. */
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

/* to = from for the rows that are reset, so that the product may run over all rows and be undone
 * there. */
static void copy_reset_rows(float *to, const float *from, const uint8_t *reset, int N, int H) {
  for (int n = 0; n < N; n++)
    if (reset[n] & RESET) memcpy(to + (size_t)n * H, from + (size_t)n * H, (size_t)H * sizeof *to);
}

/* Steps whose products with h_prev go into dwh together, while they are still in the cache. */
static int steps_at_once(int N) {
  return N >= BLOCK_K ? 1 : BLOCK_K / N;
}

/* The arrays of a backward pass. */
struct lstm_pass {
  float *dgates, *dwh, *dh;
  const float *h, *c, *gates, *h0, *c0;
  const uint8_t *reset;
  bool low; /* in bf16: from wh itself */
  const float *wh;
  struct panels weights;     /* Wh^T */
  float *zeros, *dc, *saved; /* (H), (N, H), (N, H) */
  float *h_prev;             /* (steps_at_once, N, H) */
  int N, H;
};

/* dh of the step before += dgates Wh^T, but nothing through a reset. */
static void hidden_gradient(struct device *d, const struct lstm_pass *p, float *dh_prev,
                            const float *dgates, const uint8_t *reset) {
  int N = p->N, H = p->H;
  copy_reset_rows(p->saved, dh_prev, reset, N, H);
  if (p->low)
    low_lstm_hidden(d, dh_prev, dgates, p->wh, N, H);
  else
    gemm_run(&(struct gemm){.c = dh_prev,
                            .c_stride = H,
                            .a = dgates,
                            .a_row = 4 * H,
                            .a_column = 1,
                            .b = p->weights,
                            .M = N,
                            .N = H,
                            .K = 4 * H,
                            .accumulate = true});
  copy_reset_rows(dh_prev, p->saved, reset, N, H);
}

/* dwh (H, 4H) += sum over steps t0 .. t1 of h_prev^T dgates, as one product; the first is not
 * added but written. */
static void recurrent_weight_gradient(struct device *d, const struct lstm_pass *p, bool add, int t0,
                                      int t1) {
  int N = p->N, H = p->H, rows = (t1 - t0) * N;
  size_t step = (size_t)N * H;
  for (int t = t0; t < t1; t++)
    copy_unless_reset(p->h_prev + (t - t0) * step, t ? p->h + (t - 1) * step : p->h0,
                      p->reset + (size_t)t * N, N, H);
  const float *dgates = p->dgates + 4 * t0 * step;
  if (p->low) {
    low_lstm_weights(d, p->dwh, p->h_prev, dgates, add, rows, H);
    return;
  }
  float *packed = cpu_scratch(d, SCRATCH_PANELS, panels_count(rows, 4 * H));
  gemm_run(&(struct gemm){.c = p->dwh,
                          .c_stride = 4 * H,
                          .a = p->h_prev,
                          .a_row = 1,
                          .a_column = H,
                          .b = panels_choose(packed, dgates, 4 * H, H, rows, 4 * H),
                          .M = H,
                          .N = 4 * H,
                          .K = rows,
                          .accumulate = add});
}

/* Step t: dgates of t, and what flows on into dh of t - 1 and dc. */
static void step_backward(struct device *d, const struct lstm_pass *p, int t) {
  int N = p->N, H = p->H;
  size_t step = (size_t)N * H, start = t * step;
  const uint8_t *reset = p->reset + (size_t)t * N;
  const float *c_prev = t ? p->c + start - step : p->c0;
  for (int n = 0; n < N; n++) {
    size_t row = (size_t)n * H, i = start + row;
    bool first = reset[n] & RESET;
    cells_backward(p->dgates + 4 * i, p->dc + row, p->dh + i, p->c + i,
                   first ? p->zeros : c_prev + row, p->gates + 4 * i, first ? 0.0f : 1.0f, H);
  }
  if (t > 0) hidden_gradient(d, p, p->dh + start - step, p->dgates + 4 * start, reset);
}

static void lstm_backward(struct device *d, real *dgates, real *dwh, real *dh, const real *h,
                          const real *c, const real *gates, const real *wh, const real *h0,
                          const real *c0, const uint8_t *reset, int T, int N, int H) {
  unsigned state = flush_tiny();
  size_t step = (size_t)N * H;
  int chunk = steps_at_once(N);
  float *zeros = cpu_scratch(d, SCRATCH_STATE, (size_t)H + step * (size_t)(chunk + 2));
  memset(zeros, 0, ((size_t)H + step) * sizeof *zeros);
  struct lstm_pass p = {
      .dgates = (float *)dgates,
      .dwh = (float *)dwh,
      .dh = (float *)dh,
      .h = (const float *)h,
      .c = (const float *)c,
      .gates = (const float *)gates,
      .h0 = (const float *)h0,
      .c0 = (const float *)c0,
      .reset = reset,
      .low = low_lstm(d, H),
      .wh = (const float *)wh,
      .zeros = zeros,
      .dc = zeros + H,
      .saved = zeros + H + step,
      .h_prev = zeros + H + 2 * step,
      .N = N,
      .H = H,
  };
  if (!p.low)
    p.weights = panels_pack_transposed(cpu_scratch(d, SCRATCH_WEIGHTS, panels_count(4 * H, H)),
                                       p.wh, 4 * H, 4 * H, H);
  for (int t = T - 1, end = T; t >= 0; t--) {
    step_backward(d, &p, t);
    if (end - t < chunk && t > 0) continue;
    recurrent_weight_gradient(d, &p, end < T, t, end);
    end = t;
  }
  flush_end(state);
}

#endif
