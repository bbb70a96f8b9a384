/* The LSTM: lstm_forward, lstm_backward. In bf16 lstm_steps.cu does a whole pass in one kernel;
 * here each step is one product with the recurrent weights and one kernel over the cells. The
 * gradient of the weights is one product over all steps. */
#include "learner/device/cuda/lstm.h"

#include "learner/device/cuda/product.h"

static struct lstm arguments(const real *wh, const real *h0, const real *c0, const uint8_t *reset,
                             int T, int N, int H) {
  struct lstm l = {};
  l.wh = (const float *)wh;
  l.h0 = (const float *)h0;
  l.c0 = (const float *)c0;
  l.reset = reset;
  l.T = T;
  l.N = N;
  l.H = H;
  return l;
}

static size_t state_count(const struct lstm *l) {
  return (size_t)l->N * (size_t)l->H;
}

/* y (steps, N, H): h before steps t, t + 1, ... */
KERNEL h_before(float *y, struct lstm l, int t, size_t steps) {
  size_t state = (size_t)l.N * l.H, count = steps * state;
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    int step = t + (int)(i / state), row = (int)(i % state);
    y[i] = state_before(l, l.h, l.h0, step, row / l.H, row % l.H);
  }
}

/* ---- forward */

/* The cells of step t; before (N, H): what the product of the next step reads. */
KERNEL cells_forward(float *before, struct lstm l, int t) {
  size_t state = (size_t)l.N * l.H;
  for (size_t i = grid_first(); i < state; i += grid_step()) {
    int n = (int)(i / l.H), j = (int)(i % l.H);
    size_t at = (size_t)t * state + i;
    float *row = l.gates + ((size_t)t * l.N + n) * 4 * l.H + j, gate[4];
    for (int k = 0; k < 4; k++) gate[k] = row[(size_t)k * l.H];
    float h, c;
    cell_forward(&h, &c, gate, state_before(l, l.c, l.c0, t, n, j));
    for (int k = 0; k < 4; k++) row[(size_t)k * l.H] = gate[k];
    l.h[at] = h;
    l.c[at] = c;
    before[i] = t + 1 < l.T && !is_first(l, t + 1, n) ? h : 0;
  }
}

/* gates (N, 4H) += before (N, H) wh. */
static void add_recurrent(struct cuda *cuda, const struct lstm *l, float *gates,
                          const float *before) {
  struct product p = {};
  p.c = gates;
  p.c_stride = 4 * l->H;
  p.M = l->N;
  p.N = 4 * l->H;
  p.K = l->H;
  p.a = operand_of(before, l->H);
  p.b = operand_of(l->wh, 4 * l->H);
  p.add = true;
  cuda_multiply(cuda, &p);
}

void cuda_lstm_forward(struct device *d, real *h, real *c, real *gates, const real *wh,
                       const real *h0, const real *c0, const uint8_t *reset, int T, int N, int H) {
  struct cuda *cuda = cuda_of(d);
  struct lstm l = arguments(wh, h0, c0, reset, T, N, H);
  l.h = (float *)h;
  l.c = (float *)c;
  l.gates = (float *)gates;
  if (lstm_takes_steps(cuda, &l)) {
    lstm_steps_forward(cuda, &l);
    return;
  }
  size_t state = state_count(&l);
  float *before = (float *)cuda_scratch(cuda, state * sizeof(float));
  LAUNCH(h_before, blocks_for(state), BLOCK, cuda->stream, before, l, 0, (size_t)1);
  for (int t = 0; t < T; t++) {
    add_recurrent(cuda, &l, l.gates + 4 * (size_t)t * state, before);
    LAUNCH(cells_forward, blocks_for(state), BLOCK, cuda->stream, before, l, t);
  }
}

/* ---- backward */

/* The cells of step t. above (N, H): the gradient that step t + 1 sends to h; dc (N, H): to c. */
KERNEL cells_backward(float *dc, const float *above, struct lstm l, int t) {
  size_t state = (size_t)l.N * l.H;
  bool last = t == l.T - 1;
  for (size_t i = grid_first(); i < state; i += grid_step()) {
    int n = (int)(i / l.H), j = (int)(i % l.H);
    size_t at = (size_t)t * state + i, row = ((size_t)t * l.N + n) * 4 * l.H + j;
    float gate[4], dgate[4], carried = last ? 0 : dc[i], dh = l.dh[at];
    for (int k = 0; k < 4; k++) gate[k] = l.gates[row + (size_t)k * l.H];
    if (!last && !is_first(l, t + 1, n)) dh += above[i];
    cell_backward(dgate, &carried, gate, l.c[at], state_before(l, l.c, l.c0, t, n, j), dh,
                  is_first(l, t, n));
    for (int k = 0; k < 4; k++) l.dgates[row + (size_t)k * l.H] = dgate[k];
    dc[i] = carried;
  }
}

/* above (N, H) = dgates (N, 4H) wh^T. */
static void send_down(struct cuda *cuda, const struct lstm *l, float *above, const float *dgates) {
  struct product p = {};
  p.c = above;
  p.c_stride = l->H;
  p.M = l->N;
  p.N = l->H;
  p.K = 4 * l->H;
  p.a = operand_of(dgates, 4 * l->H);
  p.b = operand_transposed(l->wh, 4 * l->H);
  cuda_multiply(cuda, &p);
}

/* dwh (H, 4H) = before (T N, H)^T dgates (T N, 4H). */
static void weight_gradient(struct cuda *cuda, const struct lstm *l, float *before) {
  size_t count = (size_t)l->T * state_count(l);
  LAUNCH(h_before, blocks_for(count), BLOCK, cuda->stream, before, *l, 0, (size_t)l->T);
  struct product p = {};
  p.c = l->dwh;
  p.c_stride = 4 * l->H;
  p.M = l->H;
  p.N = 4 * l->H;
  p.K = l->T * l->N;
  p.a = operand_transposed(before, l->H);
  p.b = operand_of(l->dgates, 4 * l->H);
  cuda_multiply(cuda, &p);
}

void cuda_lstm_backward(struct device *d, real *dgates, real *dwh, real *dh, const real *h,
                        const real *c, const real *gates, const real *wh, const real *h0,
                        const real *c0, const uint8_t *reset, int T, int N, int H) {
  struct cuda *cuda = cuda_of(d);
  struct lstm l = arguments(wh, h0, c0, reset, T, N, H);
  l.h = (float *)h;
  l.c = (float *)c;
  l.gates = (float *)gates;
  l.dh = (const float *)dh;
  l.dgates = (float *)dgates;
  l.dwh = (float *)dwh;
  if (lstm_takes_steps(cuda, &l)) {
    lstm_steps_backward(cuda, &l);
    return;
  }
  size_t state = state_count(&l);
  float *dc = (float *)cuda_scratch(cuda, ((size_t)T + 2) * state * sizeof(float));
  float *above = dc + state, *before = above + state;
  for (int t = T - 1; t >= 0; t--) {
    LAUNCH(cells_backward, blocks_for(state), BLOCK, cuda->stream, dc, (const float *)above, l, t);
    if (t > 0) send_down(cuda, &l, above, l.dgates + 4 * (size_t)t * state);
  }
  weight_gradient(cuda, &l, before);
}
