#include "learner/network/noisy_layer.h"

#include <math.h>
#include <stdio.h>

#include "common/base/random.h"

struct noisy_layer noisy_layer_declare(struct network *network, const char *name, int inputs,
                                       int outputs, enum activation activation) {
  struct noisy_layer layer = {.has_noise = network->config.noisy};
  layer.dense = dense_declare(network, name, inputs, outputs, activation);
  if (!layer.has_noise) return layer;
  char full[NETWORK_NAME_BYTES];
  snprintf(full, sizeof(full), "%s/w_deviation", name);
  layer.weight_deviation = network_declare(network, full, 2, inputs, outputs);
  snprintf(full, sizeof(full), "%s/b_deviation", name);
  layer.bias_deviation = network_declare(network, full, 1, outputs, 1);
  return layer;
}

static void init_constant(const struct network *network, int index, float *host, double value) {
  const struct network_parameter *parameter = &network->parameter[index];
  for (size_t i = 0; i < parameter->count; i++) host[parameter->offset + i] = (float)value;
}

void noisy_layer_init(const struct network *network, const struct noisy_layer *layer, float *host,
                      uint64_t seed) {
  double limit = 1 / sqrt(layer->dense.inputs);
  parameter_init_uniform(network, layer->dense.weight, host, seed, limit);
  parameter_init_uniform(network, layer->dense.bias, host, seed, limit);
  init_constant(network, layer->weight_deviation, host, 0.5 * limit);
  init_constant(network, layer->bias_deviation, host, 0.5 * limit);
}

static real *reals(struct network_workspace *workspace, size_t count) {
  return workspace_memory(workspace, count * workspace->device->ops->real_bytes);
}

void noisy_layer_allocate(struct network_workspace *workspace, struct noisy_layer_buffers *buffers,
                          const struct noisy_layer *layer) {
  if (!layer->has_noise) return;
  size_t I = (size_t)layer->dense.inputs, O = (size_t)layer->dense.outputs;
  buffers->noise = reals(workspace, I + O);
  buffers->weight = reals(workspace, I * O);
  buffers->bias = reals(workspace, O);
}

/* Each number has a key of its own: counters of 32 bits would not last for the noise of all. */
void noisy_layer_draw(struct network_workspace *workspace, struct noisy_layer_buffers *buffers,
                      const struct noisy_layer *layer, const struct network_noise *noise) {
  struct device *device = workspace->device;
  buffers->noise_on = layer->has_noise && noise->on;
  if (!buffers->noise_on) return;
  uint32_t stream = (uint32_t)layer->dense.weight;
  uint64_t key = random_bits(noise->seed, stream, 0, noise->number, RANDOM_NOISE);
  device->ops->factor_noise(device, buffers->noise, key, stream, 0,
                            layer->dense.inputs + layer->dense.outputs);
}

static const real *noise_of_outputs(const struct network_workspace *workspace,
                                    const struct noisy_layer_buffers *buffers,
                                    const struct noisy_layer *layer) {
  return device_at_const(workspace->device, buffers->noise, (size_t)layer->dense.inputs);
}

void noisy_layer_forward(struct network_workspace *workspace,
                         const struct noisy_layer_buffers *buffers, real *y, const real *params,
                         const real *x, const struct noisy_layer *layer, int B) {
  if (!buffers->noise_on) {
    dense_forward(workspace, y, params, x, &layer->dense, B);
    return;
  }
  struct device *device = workspace->device;
  const real *of_outputs = noise_of_outputs(workspace, buffers, layer);
  device->ops->noisy_forward(device, buffers->weight,
                             parameter_at_const(workspace, params, layer->dense.weight),
                             parameter_at_const(workspace, params, layer->weight_deviation),
                             buffers->noise, of_outputs, layer->dense.inputs, layer->dense.outputs);
  device->ops->noisy_forward(device, buffers->bias,
                             parameter_at_const(workspace, params, layer->dense.bias),
                             parameter_at_const(workspace, params, layer->bias_deviation), NULL,
                             of_outputs, 1, layer->dense.outputs);
  dense_forward_with(workspace, y, buffers->weight, buffers->bias, x, &layer->dense, B);
}

static void no_gradient(struct network_workspace *workspace, real *grads, int index) {
  struct device *device = workspace->device;
  device_fill(device, parameter_at(workspace, grads, index), 0,
              workspace->network->parameter[index].count);
}

void noisy_layer_backward(struct network_workspace *workspace,
                          const struct noisy_layer_buffers *buffers, real *dx, real *grads,
                          const real *params, real *dy, const real *y, const real *x,
                          const struct noisy_layer *layer, int B) {
  if (!buffers->noise_on) {
    dense_backward(workspace, dx, grads, params, dy, y, x, &layer->dense, B);
    if (!layer->has_noise) return;
    no_gradient(workspace, grads, layer->weight_deviation);
    no_gradient(workspace, grads, layer->bias_deviation);
    return;
  }
  struct device *device = workspace->device;
  const real *of_outputs = noise_of_outputs(workspace, buffers, layer);
  dense_backward_with(workspace, dx, grads, buffers->weight, dy, y, x, &layer->dense, B);
  device->ops->noisy_backward(device, parameter_at(workspace, grads, layer->weight_deviation),
                              parameter_at(workspace, grads, layer->dense.weight), buffers->noise,
                              of_outputs, layer->dense.inputs, layer->dense.outputs);
  device->ops->noisy_backward(device, parameter_at(workspace, grads, layer->bias_deviation),
                              parameter_at(workspace, grads, layer->dense.bias), NULL, of_outputs,
                              1, layer->dense.outputs);
}
