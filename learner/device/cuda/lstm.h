/* What the two ways of an LSTM share: the arithmetic of a cell, and the arguments of a pass.
 * Upstream: lstm.cu (a product and a kernel for each step), lstm_steps.cu (one kernel for all). */
#ifndef ACORN_LEARNER_DEVICE_CUDA_LSTM_H
#define ACORN_LEARNER_DEVICE_CUDA_LSTM_H

#include "learner/device/cuda/cuda.h"

/* As in device.h. Backwards h, c and gates are what forward wrote. */
struct lstm {
  float *h, *c, *gates;
  float *dgates, *dwh;
  const float *dh;
  const float *wh, *h0, *c0;
  const uint8_t *reset;
  int T, N, H;
};

/* lstm_steps.cu: whether it takes this pass, which it does in bf16. */
bool lstm_takes_steps(const struct cuda *cuda, const struct lstm *l);
void lstm_steps_forward(struct cuda *cuda, const struct lstm *l);
void lstm_steps_backward(struct cuda *cuda, const struct lstm *l);

enum { LSTM_FIRST = 1 };

DEVICE bool is_first(const struct lstm &l, int t, int n) {
  return l.reset[(size_t)t * l.N + n] & LSTM_FIRST;
}

/* Unit j of sequence n in the state before step t: of x (T, N, H), x0 (N, H); 0 after a reset. */
DEVICE float state_before(const struct lstm &l, const float *x, const float *x0, int t, int n,
                          int j) {
  if (is_first(l, t, n)) return 0;
  return t > 0 ? x[((size_t)(t - 1) * l.N + n) * l.H + j] : x0[(size_t)n * l.H + j];
}

DEVICE float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

/* gate: the sums, turned into the activated gates i, f, g, o. */
DEVICE void cell_forward(float *h, float *c, float gate[4], float c_before) {
  gate[0] = sigmoid(gate[0]);
  gate[1] = sigmoid(gate[1] + 1);
  gate[2] = tanhf(gate[2]);
  gate[3] = sigmoid(gate[3]);
  *c = gate[1] * c_before + gate[0] * gate[2];
  *h = gate[3] * tanhf(*c);
}

/* dc goes from after the step to before it. */
DEVICE void cell_backward(float dgate[4], float *dc, const float gate[4], float c, float c_before,
                          float dh, bool first) {
  float i = gate[0], f = gate[1], g = gate[2], o = gate[3], squashed = tanhf(c);
  float dcell = *dc + dh * o * (1 - squashed * squashed);
  dgate[0] = dcell * g * i * (1 - i);
  dgate[1] = dcell * c_before * f * (1 - f);
  dgate[2] = dcell * i * (1 - g * g);
  dgate[3] = dh * squashed * o * (1 - o);
  *dc = first ? 0 : dcell * f;
}

#endif
