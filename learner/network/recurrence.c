#include "learner/network/recurrence.h"

#include <math.h>

struct recurrence recurrence_declare(struct network *network, int inputs, int H) {
  struct recurrence core = {.H = H};
  network->state_size = 2 * H;
  core.input = dense_declare(network, "lstm", inputs, 4 * H, ACTIVATION_NONE);
  core.wh = network_declare(network, "lstm/wh", 2, H, 4 * H);
  return core;
}

void recurrence_init(const struct network *network, const struct recurrence *core, float *host,
                     uint64_t seed) {
  double limit = 1 / sqrt(core->H);
  parameter_init_uniform(network, core->input.weight, host, seed, limit);
  parameter_init_uniform(network, core->input.bias, host, seed, 0);
  parameter_init_uniform(network, core->wh, host, seed, limit);
}

void recurrence_list(const struct recurrence *core, struct network_layer_list *list) {
  struct network_layer *layer = layer_list_add(list, NETWORK_LSTM);
  layer->weight[0] = core->input.weight;
  layer->weight[1] = core->wh;
  layer->bias[0] = core->input.bias;
}

void recurrence_allocate(struct network_workspace *workspace, struct recurrence_buffers *buffers,
                         const struct recurrence *core) {
  int H = core->H;
  buffers->h = workspace_reals(workspace, H);
  buffers->c = workspace_reals(workspace, H);
  buffers->gates = workspace_reals(workspace, 4 * H);
  buffers->h0 = workspace_reals(workspace, H);
  buffers->c0 = workspace_reals(workspace, H);
  if (!workspace->backward) return;
  buffers->dh = workspace_reals(workspace, H);
  buffers->dgates = workspace_reals(workspace, 4 * H);
}

/* Between (N, 2H), h then c, and two arrays of (N, H). */
static void split_state(struct device *device, real *h, real *c, const real *state, int N, int H) {
  device->ops->copy_rows(device, h, H, state, 2 * H, N, H);
  device->ops->copy_rows(device, c, H, device_at_const(device, state, (size_t)H), 2 * H, N, H);
}

static void join_state(struct device *device, real *state, const real *h, const real *c, int N,
                       int H) {
  device->ops->copy_rows(device, state, 2 * H, h, H, N, H);
  device->ops->copy_rows(device, device_at(device, state, (size_t)H), 2 * H, c, H, N, H);
}

void recurrence_forward(struct network_workspace *workspace, struct recurrence_buffers *buffers,
                        real *state_out, const real *params, const real *x,
                        const struct recurrence *core, const struct device_inputs *inputs,
                        const real *state_in, int T, int N) {
  struct device *device = workspace->device;
  int H = core->H;
  split_state(device, buffers->h0, buffers->c0, state_in, N, H);
  dense_forward(workspace, buffers->gates, params, x, &core->input, T * N);
  device->ops->lstm_forward(device, buffers->h, buffers->c, buffers->gates,
                            parameter_at_const(workspace, params, core->wh), buffers->h0,
                            buffers->c0, inputs->flags, T, N, H);
  size_t last = (size_t)(T - 1) * (size_t)N * (size_t)H;
  if (state_out)
    join_state(device, state_out, device_at(device, buffers->h, last),
               device_at(device, buffers->c, last), N, H);
}

void recurrence_backward(struct network_workspace *workspace, struct recurrence_buffers *buffers,
                         real *dx, real *grads, const real *params, const real *x,
                         const struct recurrence *core, const struct device_inputs *inputs, int T,
                         int N) {
  struct device *device = workspace->device;
  device->ops->lstm_backward(device, buffers->dgates, parameter_at(workspace, grads, core->wh),
                             buffers->dh, buffers->h, buffers->c, buffers->gates,
                             parameter_at_const(workspace, params, core->wh), buffers->h0,
                             buffers->c0, inputs->flags, T, N, core->H);
  dense_backward(workspace, dx, grads, params, buffers->dgates, buffers->gates, x, &core->input,
                 T * N);
}
