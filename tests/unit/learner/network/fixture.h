/* What the tests of networks and of training share: a small world of observations, networks for it,
 * random batches, and the networks once more in plain double arithmetic, one row at a time. */
#ifndef ACORN_TESTS_UNIT_LEARNER_NETWORK_FIXTURE_H
#define ACORN_TESTS_UNIT_LEARNER_NETWORK_FIXTURE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/random.h"
#include "common/wire/wire.h"
#include "learner/network/network.h"
#include "learner/experience/batch.h"
#include "tests/unit/support/any_device.h"
#include "tests/unit/support/host_batch.h"
#include "tests/unit/support/discrete_shape.h"

enum { FLOATS = 3, BYTES = 2, MASK_AT = 24, STRIDE = 32, ACTIONS = 3, MAX_WIDTH = 64 };

/* ---- networks */

/* float32[3], then uint8[2]. What the rows have as a mask is only read where `masked` is set. */
static inline struct device_inputs fixture_inputs(void) {
  return (struct device_inputs){.row_stride = STRIDE,
                                .num_tensors = 2,
                                .tensor = {{DTYPE_FLOAT32, FLOATS, 0}, {DTYPE_UINT8, BYTES, 16}},
                                .discrete = ACTIONS,
                                .mask_offset = MASK_AT,
                                .use_previous_action = true,
                                .use_reward = true};
}

static inline struct network_config fixture_config(const char *network, int num_layers,
                                                   enum activation act) {
  return (struct network_config){.network = network,
                                 .inputs = fixture_inputs(),
                                 .head_size = ACTIONS,
                                 .value_size = 1,
                                 .num_layers = num_layers,
                                 .hidden = {6, 5, 4, 7},
                                 .lstm_size = 5,
                                 .activation = act};
}

static inline struct network *fixture_network(const struct network_config *config) {
  struct network *network;
  struct error error;
  if (network_create(&network, config, &error) != STATUS_OK) fail_msg("%s", error.text);
  return network;
}

static inline struct device *fixture_device(const char *name) {
  struct device *device;
  struct error error;
  if (any_device_create(&device, name, &error) != STATUS_OK) fail_msg("%s", error.text);
  return device;
}

/* ---- random numbers */

struct stream {
  uint32_t seed, next;
};

static inline double stream_uniform(struct stream *stream) {
  return random_uniform(stream->seed, 0, 0, stream->next++, RANDOM_TEST);
}

static inline double stream_between(struct stream *stream, double low, double high) {
  return low + (high - low) * stream_uniform(stream);
}

static inline int stream_below(struct stream *stream, int n) {
  return (int)(stream_uniform(stream) * n);
}

/* ---- batches */

/* The action that was taken is allowed, and some others; where none is needed, none may be. */
static inline void fixture_fill_mask(uint8_t *row, int i, int action, bool truncated) {
  for (int a = 0; a < ACTIONS; a++)
    row[MASK_AT + a] = truncated && i % 2 ? 0 : a == action ? 1 : (i + a) % 2 ? 200 : 0;
}

static inline bool fixture_allows(const uint8_t *observation, int i, int action) {
  const uint8_t *mask = observation + (size_t)i * STRIDE + MASK_AT;
  for (int a = 0; a < ACTIONS; a++)
    if (mask[a]) return mask[action] != 0;
  return true;
}

/* One column: lives of a few steps that end by termination or by truncation, all fields as
 * experience would fill them. */
static inline void fixture_fill_column(struct train_batch *batch, int n, struct stream *stream) {
  int32_t *action = batch->action, *previous_action = batch->previous_action;
  int after_truncation = 0;
  for (int t = 0; t <= batch->T; t++) {
    int i = t * batch->N + n;
    uint8_t *row = batch->observation + (size_t)i * STRIDE;
    for (int k = 0; k < FLOATS; k++) ((float *)row)[k] = (float)stream_between(stream, -2, 2);
    for (int k = 0; k < BYTES; k++) row[16 + k] = (uint8_t)stream_below(stream, 256);
    double u = stream_uniform(stream);
    batch->flags[i] = after_truncation ? STEP_FIRST
                      : u < 0.2        ? STEP_FIRST | STEP_TERMINATED
                      : u < 0.4        ? STEP_TRUNCATED
                                       : 0;
    batch->reward[i] = after_truncation ? 0 : (float)stream_between(stream, -3, 3);
    after_truncation = batch->flags[i] & STEP_TRUNCATED;
    action[i] = stream_below(stream, ACTIONS);
    fixture_fill_mask(row, i, action[i], after_truncation);
    batch->statistics[i] = (float)stream_between(stream, -3, -0.2);
    *train_batch_stamp(batch, t, n) = step_stamp(-stream_below(stream, 4), batch->flags[i]);
    previous_action[i] = batch->flags[i] & STEP_FIRST ? -1
                         : t > 0                      ? action[i - batch->N]
                                                      : stream_below(stream, ACTIONS);
  }
}

/* Random states go through `upload`, so that they are the same on every device. */
static inline void fixture_fill_batch(struct device *device, struct train_batch *batch,
                                      uint32_t seed) {
  struct stream stream = {seed, 0};
  for (int n = 0; n < batch->N; n++) fixture_fill_column(batch, n, &stream);
  for (int i = 0; i < batch->N * batch->shape.state_size; i++) {
    float x = (float)stream_between(&stream, -1, 1);
    device->ops->upload(device, device_at(device, batch->state, (size_t)i), &x, 1);
  }
  batch->num_windows = batch->N;
}

static inline struct train_batch *fixture_batch(struct device *device,
                                                const struct network *network, int T, int N,
                                                uint32_t seed) {
  struct step_shape shape = discrete_shape(STRIDE, network_state_size(network), 0);
  struct train_batch *batch = train_batch_create(device, T, N, &shape);
  if (device->ops->unified) {
    fixture_fill_batch(device, batch, seed);
    return batch;
  }
  struct host_batch host = host_batch_create(T, N, &shape);
  fixture_fill_batch(host.ref, host.batch, seed);
  host_batch_write(&host, device, batch);
  host_batch_destroy(&host);
  return batch;
}

/* The same once more, where the host can read it. */
static inline struct host_batch fixture_host_batch(struct device *device,
                                                   const struct train_batch *batch) {
  struct host_batch host = host_batch_create(batch->T, batch->N, &batch->shape);
  host_batch_read(&host, device, batch);
  return host;
}

static inline struct device_inputs fixture_batch_inputs(const struct network *network,
                                                        const struct train_batch *batch) {
  struct device_inputs inputs = *network_inputs(network);
  inputs.observation = batch->observation;
  inputs.previous_action = batch->previous_action;
  inputs.reward = batch->reward;
  inputs.flags = batch->flags;
  return inputs;
}

/* ---- the networks in double */

static inline const double *reference_parameter(const struct network *network, const double *params,
                                                const char *name) {
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  for (int i = 0; i < count; i++)
    if (strcmp(parameter[i].name, name) == 0) return params + parameter[i].offset;
  fail_msg("no parameter %s", name);
  return NULL;
}

static inline int reference_embed(double *x, const struct device_inputs *in, int row) {
  const uint8_t *bytes = in->observation + (size_t)row * STRIDE;
  int I = 0;
  for (int k = 0; k < FLOATS; k++) x[I++] = ((const float *)bytes)[k];
  for (int k = 0; k < BYTES; k++) x[I++] = bytes[16 + k] / 255.0;
  for (int a = 0; in->use_previous_action && a < ACTIONS; a++)
    x[I++] = ((const int32_t *)in->previous_action)[row] == a ? 1 : 0;
  if (in->use_reward) x[I++] = in->flags[row] & STEP_FIRST ? 0 : fmax(-1, fmin(1, in->reward[row]));
  return I;
}

/* The floats, by the statistics among the parameters. */
static inline void reference_normalize(double *x, const struct network *network,
                                       const double *params) {
  const double *mean = reference_parameter(network, params, "observation/mean"),
               *variance = reference_parameter(network, params, "observation/variance");
  for (int k = 0; k < FLOATS; k++)
    x[k] = fmax(-10, fmin(10, (x[k] - mean[k]) / sqrt(variance[k] + 1e-8)));
}

/* x (I) becomes act(x w + b) (O). */
static inline int reference_dense(double *x, const struct network *network, const double *params,
                                  const char *name, enum activation act, int I, int O) {
  char full[32];
  double y[MAX_WIDTH];
  snprintf(full, sizeof(full), "%s/w", name);
  const double *w = reference_parameter(network, params, full);
  snprintf(full, sizeof(full), "%s/b", name);
  const double *b = reference_parameter(network, params, full);
  for (int o = 0; o < O; o++) {
    y[o] = b[o];
    for (int i = 0; i < I; i++) y[o] += x[i] * w[i * O + o];
    if (act == ACTIVATION_RELU) y[o] = y[o] > 0 ? y[o] : 0;
    if (act == ACTIVATION_TANH) y[o] = tanh(y[o]);
  }
  memcpy(x, y, (size_t)O * sizeof(double));
  return O;
}

static inline double reference_sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

/* x (I) becomes h (H); state (2H) moves on by one step. */
static inline int reference_lstm(double *x, double *state, const struct network *network,
                                 const double *params, int I, int H) {
  const double *wh = reference_parameter(network, params, "lstm/wh");
  double *h = state, *c = state + H;
  reference_dense(x, network, params, "lstm", ACTIVATION_NONE, I, 4 * H);
  for (int j = 0; j < 4 * H; j++)
    for (int k = 0; k < H; k++) x[j] += h[k] * wh[k * 4 * H + j];
  for (int j = 0; j < H; j++) {
    double in = reference_sigmoid(x[j]), forget = reference_sigmoid(x[H + j] + 1);
    double cell = tanh(x[2 * H + j]), out = reference_sigmoid(x[3 * H + j]);
    c[j] = forget * c[j] + in * cell;
    h[j] = out * tanh(c[j]);
  }
  memcpy(x, h, (size_t)H * sizeof(double));
  return H;
}

/* head (T*N, A+1); state (N, S) is moved on to after the last step. */
static inline void reference_forward(double *head, double *state, const struct network *network,
                                     const struct network_config *config, const double *params,
                                     const struct device_inputs *inputs, int T, int N) {
  int S = network_state_size(network);
  for (int row = 0; row < T * N; row++) {
    double x[MAX_WIDTH], *own = state + row % N * S;
    if (inputs->flags[row] & STEP_FIRST) memset(own, 0, (size_t)S * sizeof(double));
    int width = reference_embed(x, inputs, row);
    if (config->normalize) reference_normalize(x, network, params);
    for (int l = 0; l < config->num_layers; l++) {
      char name[24];
      snprintf(name, sizeof(name), "hidden%d", l);
      width =
          reference_dense(x, network, params, name, config->activation, width, config->hidden[l]);
    }
    if (S) width = reference_lstm(x, own, network, params, width, config->lstm_size);
    reference_dense(x, network, params, "head", ACTIVATION_NONE, width, ACTIONS + 1);
    if (config->scale_value)
      x[ACTIONS] = *reference_parameter(network, params, "value/deviation") * x[ACTIONS] +
                   *reference_parameter(network, params, "value/mean");
    for (int a = 0; inputs->masked && a < ACTIONS; a++)
      if (!config->values.A && !fixture_allows(inputs->observation, row, a)) x[a] = -1e30f;
    memcpy(head + row * (ACTIONS + 1), x, (ACTIONS + 1) * sizeof(double));
  }
}

#endif
