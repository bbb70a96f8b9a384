#include "learner/network/layers.h"

#include <math.h>
#include <stdio.h>

#include "common/base/random.h"

real *parameter_at(const struct network_workspace *workspace, real *flat, int index) {
  return device_at(workspace->device, flat, workspace->network->parameter[index].offset);
}

const real *parameter_at_const(const struct network_workspace *workspace, const real *flat,
                               int index) {
  return device_at_const(workspace->device, flat, workspace->network->parameter[index].offset);
}

void parameter_init_uniform(const struct network *network, int index, float *host, uint64_t seed,
                            double limit) {
  const struct network_parameter *parameter = &network->parameter[index];
  for (size_t i = 0; i < parameter->count; i++) {
    float uniform = random_uniform(seed, (uint32_t)index, 0, (uint32_t)i, RANDOM_PARAMETERS);
    host[parameter->offset + i] = (float)(limit * (2.0 * uniform - 1));
  }
}

/* ---- dense */

struct dense dense_declare(struct network *network, const char *name, int inputs, int outputs,
                           enum activation activation) {
  struct dense dense = {.inputs = inputs, .outputs = outputs, .activation = activation};
  char full[NETWORK_NAME_BYTES];
  snprintf(full, sizeof(full), "%s/w", name);
  dense.weight = network_declare(network, full, 2, inputs, outputs);
  snprintf(full, sizeof(full), "%s/b", name);
  dense.bias = network_declare(network, full, 1, outputs, 1);
  return dense;
}

void dense_init(const struct network *network, const struct dense *dense, float *host,
                uint64_t seed, int first, int last, double gain) {
  float *w = host + network->parameter[dense->weight].offset;
  float *b = host + network->parameter[dense->bias].offset;
  double deviation = gain / sqrt(dense->inputs);
  for (int i = 0; i < dense->inputs; i++)
    for (int o = first; o < last; o++) {
      size_t k = (size_t)i * (size_t)dense->outputs + (size_t)o;
      double normal = random_normal(seed, (uint32_t)dense->weight, (uint32_t)k, RANDOM_PARAMETERS);
      w[k] = (float)(deviation * normal);
    }
  for (int o = first; o < last; o++) b[o] = 0;
}

void dense_list(const struct dense *dense, int stream, struct network_layer_list *list) {
  struct network_layer *layer = layer_list_add(list, NETWORK_DENSE);
  layer->stream = stream;
  layer->weight[0] = dense->weight;
  layer->bias[0] = dense->bias;
  layer->activation = dense->activation;
}

void dense_forward(struct network_workspace *workspace, real *y, const real *params, const real *x,
                   const struct dense *dense, int B) {
  dense_forward_with(workspace, y, parameter_at_const(workspace, params, dense->weight),
                     parameter_at_const(workspace, params, dense->bias), x, dense, B);
}

void dense_forward_with(struct network_workspace *workspace, real *y, const real *weight,
                        const real *bias, const real *x, const struct dense *dense, int B) {
  struct device *device = workspace->device;
  device->ops->linear_forward(device, y, x, dense->inputs, weight, bias, dense->activation, B,
                              dense->inputs, dense->outputs);
}

void dense_backward(struct network_workspace *workspace, real *dx, real *grads, const real *params,
                    real *dy, const real *y, const real *x, const struct dense *dense, int B) {
  dense_backward_with(workspace, dx, grads, parameter_at_const(workspace, params, dense->weight),
                      dy, y, x, dense, B);
}

void dense_backward_with(struct network_workspace *workspace, real *dx, real *grads,
                         const real *weight, real *dy, const real *y, const real *x,
                         const struct dense *dense, int B) {
  struct device *device = workspace->device;
  real *dw = workspace->d_inputs ? NULL : parameter_at(workspace, grads, dense->weight);
  device->ops->linear_backward(device, dx, dw, parameter_at(workspace, grads, dense->bias), dy, y,
                               x, dense->inputs, weight, dense->activation, B, dense->inputs,
                               dense->outputs);
}

void dense_forward_pixels(struct network_workspace *workspace, real *y, const real *params,
                          const pixel *x, const struct dense *dense, int B) {
  struct device *device = workspace->device;
  device->ops->linear_pixels_forward(device, y, x,
                                     parameter_at_const(workspace, params, dense->weight),
                                     parameter_at_const(workspace, params, dense->bias),
                                     dense->activation, B, dense->inputs, dense->outputs);
}

void dense_backward_pixels(struct network_workspace *workspace, pixel *dx, real *grads,
                           const real *params, real *dy, const real *y, const pixel *x,
                           const struct dense *dense, int B) {
  struct device *device = workspace->device;
  device->ops->linear_pixels_backward(device, dx, parameter_at(workspace, grads, dense->weight),
                                      parameter_at(workspace, grads, dense->bias), dy, y, x,
                                      parameter_at_const(workspace, params, dense->weight),
                                      dense->activation, B, dense->inputs, dense->outputs);
}

/* ---- torso */

void torso_declare(struct network *network, struct torso *torso) {
  torso->num_layers = network->config.num_layers;
  torso->outputs = network->inputs_size;
  for (int l = 0; l < torso->num_layers; l++) {
    char name[32];
    snprintf(name, sizeof(name), "hidden%d", l);
    torso->layer[l] = dense_declare(network, name, torso->outputs, network->config.hidden[l],
                                    network->config.activation);
    torso->outputs = network->config.hidden[l];
  }
}

void torso_init(const struct network *network, const struct torso *torso, float *host,
                uint64_t seed) {
  double gain = network->config.activation == ACTIVATION_NONE ? 1 : sqrt(2);
  for (int l = 0; l < torso->num_layers; l++)
    dense_init(network, &torso->layer[l], host, seed, 0, torso->layer[l].outputs, gain);
}

void torso_list(const struct torso *torso, struct network_layer_list *list) {
  layer_list_add(list, NETWORK_INPUTS);
  for (int l = 0; l < torso->num_layers; l++) dense_list(&torso->layer[l], 0, list);
}

void torso_allocate(struct network_workspace *workspace, struct torso_buffers *buffers,
                    const struct torso *torso) {
  for (int l = 0; l < torso->num_layers; l++) {
    buffers->y[l] = workspace_reals(workspace, torso->layer[l].outputs);
    if (workspace->backward) buffers->dy[l] = workspace_reals(workspace, torso->layer[l].outputs);
  }
}

/* What layer l reads. */
static const real *input_of(const struct network_workspace *workspace,
                            const struct torso_buffers *buffers, int l) {
  return l > 0 ? buffers->y[l - 1] : workspace->inputs;
}

void torso_forward(struct network_workspace *workspace, struct torso_buffers *buffers,
                   const real *params, const struct torso *torso, int B) {
  for (int l = 0; l < torso->num_layers; l++)
    dense_forward(workspace, buffers->y[l], params, input_of(workspace, buffers, l),
                  &torso->layer[l], B);
}

void torso_backward(struct network_workspace *workspace, struct torso_buffers *buffers, real *grads,
                    const real *params, const struct torso *torso, int B) {
  for (int l = torso->num_layers - 1; l >= 0; l--)
    dense_backward(workspace, l > 0 ? buffers->dy[l - 1] : workspace->d_inputs, grads, params,
                   buffers->dy[l], buffers->y[l], input_of(workspace, buffers, l), &torso->layer[l],
                   B);
}

const real *torso_output(const struct network_workspace *workspace,
                         const struct torso_buffers *buffers, const struct torso *torso) {
  return input_of(workspace, buffers, torso->num_layers);
}

real *torso_gradient(const struct network_workspace *workspace, const struct torso_buffers *buffers,
                     const struct torso *torso) {
  return torso->num_layers > 0 ? buffers->dy[torso->num_layers - 1] : workspace->d_inputs;
}
