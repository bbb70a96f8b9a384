/* What the tests of heads share: the forms that a head has, a network with such a head on a device,
 * and its gradient against finite differences. */
#ifndef ACORN_TESTS_UNIT_LEARNER_NETWORK_HEAD_WORLD_H
#define ACORN_TESTS_UNIT_LEARNER_NETWORK_HEAD_WORLD_H

#include "tests/unit/learner/network/fixture.h"
#include "tests/unit/support/any_device.h"
#include "tests/unit/support/races.h"

enum {
  T = 4,
  N = 3,
  ROWS = T * N,
  SIDE = 40,
  ATOMS = 5,
  HEAD_HIDDEN = 6,
  MAX_STRIDE = (ACTIONS + 1) * ATOMS,
  MAX_NUMBERS = ROWS * MAX_STRIDE
};

struct form {
  int head_size, value_size, head_hidden, log_stds;
};

static const struct form forms[] = {
    {ACTIONS, 1, 0, 0},
    {ACTIONS, 0, 0, 0},
    {ACTIONS * ATOMS, ATOMS, 0, 0},
    {ACTIONS, 1, HEAD_HIDDEN, 0},
    {ACTIONS, 0, HEAD_HIDDEN, 0},
    {ACTIONS * ATOMS, ATOMS, HEAD_HIDDEN, 0},
    {ACTIONS, 1, 0, ACTIONS},
    {ACTIONS, 1, HEAD_HIDDEN, ACTIONS},
};
enum { NUM_FORMS = sizeof(forms) / sizeof(forms[0]) };

/* "impala_shallow" gets images, and an LSTM. */
static inline struct network_config config_with(const char *network, int num_layers,
                                                const struct form *form) {
  struct network_config config = fixture_config(network, num_layers, ACTIVATION_TANH);
  config.head_size = form->head_size;
  config.value_size = form->value_size;
  config.head_hidden = form->head_hidden;
  config.log_stds = form->log_stds;
  if (strcmp(network, "impala_shallow") != 0) return config;
  config.inputs.num_tensors = 1;
  config.inputs.row_stride = (size_t)SIDE * SIDE;
  config.inputs.tensor[0].dtype = DTYPE_UINT8;
  config.inputs.tensor[0].count = SIDE * SIDE;
  config.inputs.tensor[0].height = config.inputs.tensor[0].width = SIDE;
  config.inputs.tensor[0].channels = 1;
  return config;
}

/* ---- a network on a device */

struct world {
  struct network *network;
  struct device *device;
  size_t P;
  int stride;
  real *params, *gradient, *d_head;
  struct train_batch *batch;
  struct device_inputs inputs;
  struct network_workspace *workspace;
};

static inline const uint8_t *world_images(void) {
  static uint8_t images[ROWS][SIDE * SIDE];
  struct stream stream = {17, 0};
  for (int row = 0; row < ROWS; row++)
    for (int i = 0; i < SIDE * SIDE; i++) images[row][i] = (uint8_t)stream_below(&stream, 256);
  return images[0];
}

static inline real *world_reals(struct world *w, size_t count) {
  return w->device->ops->alloc(w->device, count * w->device->ops->real_bytes);
}

/* Parameters of both signs for which all units are at work, smaller below many inputs. */
static inline void world_randomise(struct world *w, uint32_t seed) {
  int count;
  const struct network_parameter *parameter = network_parameters(w->network, &count);
  float *host = malloc(w->P * sizeof(*host));
  struct stream stream = {seed, 0};
  for (int j = 0; j < count; j++) {
    double limit = parameter[j].rank == 2 ? 2 / sqrt(parameter[j].shape[0]) : 0.5;
    for (size_t i = 0; i < parameter[j].count; i++)
      host[parameter[j].offset + i] = (float)stream_between(&stream, -limit, limit);
  }
  w->device->ops->upload(w->device, w->params, host, w->P);
  free(host);
}

static inline void world_open_with(struct world *w, const struct network_config *config,
                                   const char *device, const char *precision) {
  struct error error;
  w->network = fixture_network(config);
  if (any_device_create_with(&w->device, device, precision, &error) != STATUS_OK)
    fail_msg("%s", error.text);
  w->P = network_num_parameters(w->network);
  w->stride = network_head_stride(w->network);
  w->params = world_reals(w, w->P);
  w->gradient = world_reals(w, w->P);
  w->d_head = world_reals(w, MAX_NUMBERS);
  w->batch = fixture_batch(w->device, w->network, T - 1, N, 5);
  w->inputs = fixture_batch_inputs(w->network, w->batch);
  if (config->inputs.tensor[0].channels) w->inputs.observation = world_images();
  w->workspace = network_workspace_create(w->network, w->device, ROWS, true);
  world_randomise(w, 3);
}

static inline void world_open(struct world *w, const struct network_config *config,
                              const char *device) {
  world_open_with(w, config, device, "float32");
}

static inline void world_close(struct world *w) {
  network_workspace_destroy(w->workspace);
  train_batch_destroy(w->device, w->batch);
  real *arrays[] = {w->params, w->gradient, w->d_head};
  for (int i = 0; i < 3; i++) w->device->ops->release(w->device, arrays[i]);
  device_destroy(w->device);
  network_destroy(w->network);
}

static inline struct network_outputs world_forward(struct world *w) {
  struct network_outputs out;
  network_forward(w->workspace, &out, NULL, w->params, &w->inputs, w->batch->state, T, N);
  return out;
}

/* (ROWS, stride) */
static inline void world_heads(struct world *w, float *head) {
  struct network_outputs out = world_forward(w);
  assert_int_equal(out.stride, w->stride);
  assert_int_equal(out.size, network_head_size(w->network));
  w->device->ops->download(w->device, head, out.head, (size_t)(ROWS * w->stride));
}

/* ---- gradients: of the sum of all outputs of all steps but the last, each with a weight */

static inline int world_weighted(const struct world *w) {
  return (T - 1) * N * w->stride;
}

static inline float world_weight(int i) {
  return random_uniform(8, 0, 0, (uint32_t)i, RANDOM_TEST) * 2 - 1;
}

/* After a forward. */
static inline void world_backward(struct world *w) {
  float weight[MAX_NUMBERS];
  for (int i = 0; i < world_weighted(w); i++) weight[i] = world_weight(i);
  w->device->ops->upload(w->device, w->d_head, weight, (size_t)world_weighted(w));
  network_backward(w->workspace, w->gradient, w->params, w->d_head, &w->inputs, T - 1, N);
}

/* On ref_double, whose memory is the host's. */
static inline double world_sum(struct world *w) {
  const double *head = (const double *)world_forward(w).head;
  double sum = 0;
  for (int i = 0; i < world_weighted(w); i++) sum += head[i] * world_weight(i);
  return sum;
}

static inline double world_difference(struct world *w, size_t i) {
  const double e = 1e-6;
  double *params = (double *)w->params, at = params[i];
  params[i] = at + e;
  double above = world_sum(w);
  params[i] = at - e;
  double difference = (above - world_sum(w)) / (2 * e);
  params[i] = at;
  return difference;
}

/* Some elements of every array, fewer of an expensive network. `what` names the case. */
static inline void world_check_gradient(struct world *w, const char *what) {
  size_t elements = (w->inputs.tensor[0].channels ? 6 : 50) / (TESTING_FOR_MEMORY ? 5 : 1);
  const double *gradient = (const double *)w->gradient;
  int count;
  const struct network_parameter *parameter = network_parameters(w->network, &count);
  world_forward(w);
  world_backward(w);
  for (int j = 0; j < count; j++) {
    double largest = 0;
    size_t first = parameter[j].offset, step = parameter[j].count / elements + 1;
    for (size_t i = 0; i < parameter[j].count; i++)
      largest = fmax(largest, fabs(gradient[first + i]));
    if (largest < 1e-4) fail_msg("%s, %s: no gradient", what, parameter[j].name);
    for (size_t i = 0; i < parameter[j].count; i += step) {
      double difference = world_difference(w, first + i), got = gradient[first + i];
      if (fabs(difference - got) > 1e-5 * largest)
        fail_msg("%s, %s[%zu]: finite difference %.10g, gradient %.10g", what, parameter[j].name, i,
                 difference, got);
    }
  }
}

/* ---- devices */

/* Heads and gradient. head: (ROWS, stride), gradient: (P). */
static inline void world_run(struct world *w, float *head, float *gradient) {
  world_heads(w, head);
  world_backward(w);
  w->device->ops->download(w->device, gradient, w->gradient, w->P);
}

static inline void world_expect_close(const float *got, const float *expected, size_t count,
                                      double tolerance, const char *what) {
  double largest = 0;
  for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(expected[i]));
  for (size_t i = 0; i < count; i++)
    if (!(fabs(got[i] - expected[i]) <= tolerance * largest))
      fail_msg("%s, %zu: %g, expected %g", what, i, (double)got[i], (double)expected[i]);
}

#endif
