/* lstm: hidden layers (or none), an LSTM, then the head. */
#include "common/base/check.h"
#include "learner/network/head.h"
#include "learner/network/recurrence.h"

struct lstm {
  struct torso torso;
  struct recurrence core;
};

struct buffers {
  struct torso_buffers torso;
  struct recurrence_buffers core;
};

static enum status check(const struct network_config *config, struct error *error) {
  enum { MAX_LSTM = 4096 }; /* as --lstm_size */
  if (config->lstm_size >= 1 && config->lstm_size <= MAX_LSTM) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--lstm_size=%d: network lstm has 1 to %d units; without an LSTM it is "
                     "--network=mlp",
                     config->lstm_size, MAX_LSTM);
}

static void declare(struct network *network) {
  struct lstm *lstm = network->own = check_alloc(1, sizeof(*lstm));
  torso_declare(network, &lstm->torso);
  lstm->core = recurrence_declare(network, lstm->torso.outputs, network->config.lstm_size);
  head_declare(network, lstm->core.H);
}

static void init(const struct network *network, float *host, uint64_t seed) {
  const struct lstm *lstm = network->own;
  torso_init(network, &lstm->torso, host, seed);
  recurrence_init(network, &lstm->core, host, seed);
}

static void list_layers(const struct network *network, struct network_layer_list *list) {
  const struct lstm *lstm = network->own;
  torso_list(&lstm->torso, list);
  recurrence_list(&lstm->core, list);
}

static void allocate(struct network_workspace *workspace) {
  const struct lstm *lstm = workspace->network->own;
  struct buffers *own = workspace->own = check_alloc(1, sizeof(*own));
  torso_allocate(workspace, &own->torso, &lstm->torso);
  recurrence_allocate(workspace, &own->core, &lstm->core);
}

static void forward(struct network_workspace *workspace, real *state_out, const real *params,
                    const struct device_inputs *inputs, const real *state_in, int T, int N) {
  const struct lstm *lstm = workspace->network->own;
  struct buffers *own = workspace->own;
  torso_forward(workspace, &own->torso, params, &lstm->torso, T * N);
  recurrence_forward(workspace, &own->core, state_out, params,
                     torso_output(workspace, &own->torso, &lstm->torso), &lstm->core, inputs,
                     state_in, T, N);
  head_forward(workspace, params, own->core.h, T * N);
}

static void backward(struct network_workspace *workspace, real *grads, const real *params,
                     real *dhead, const struct device_inputs *inputs, int T, int N) {
  const struct lstm *lstm = workspace->network->own;
  struct buffers *own = workspace->own;
  head_backward(workspace, own->core.dh, grads, params, dhead, own->core.h, T * N);
  recurrence_backward(workspace, &own->core, torso_gradient(workspace, &own->torso, &lstm->torso),
                      grads, params, torso_output(workspace, &own->torso, &lstm->torso),
                      &lstm->core, inputs, T, N);
  torso_backward(workspace, &own->torso, grads, params, &lstm->torso, T * N);
}

const struct network_kind kind_lstm = {
    .name = "lstm",
    .check = check,
    .declare = declare,
    .init = init,
    .list = list_layers,
    .allocate = allocate,
    .forward = forward,
    .backward = backward,
};
