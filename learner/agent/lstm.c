/* lstm: hidden layers (or none), an LSTM, then the head. The part of the gates that comes from the
 * inputs is one matrix product over all T*N rows; only the recurrent part goes step by step. The
 * state of a sequence is h, then c: S = 2H. */
#include <math.h>

#include "common/base/check.h"
#include "common/base/random.h"
#include "learner/agent/layers.h"

struct lstm {
  struct torso torso;
  struct dense input; /* to the gates: Wx (I, 4H) and the bias */
  int recurrent;      /* index of wh (H, 4H) */
  struct dense head;
};

struct buffers {
  struct torso_buffers torso;
  real *h, *c;   /* (rows, H) after every step */
  real *gates;   /* (rows, 4H) */
  real *h0, *c0; /* (N, H) before the first step */
  real *dh;      /* (rows, H), and the next: NULL without backward */
  real *dgates;  /* (rows, 4H) */
};

static enum status check(const struct agent_config *config, struct error *error) {
  enum { MAX_LSTM = 1 << 16 };
  if (config->lstm_size >= 1 && config->lstm_size <= MAX_LSTM) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "the network: lstm size %d; it must be 1..%d",
                     config->lstm_size, MAX_LSTM);
}

static void declare(struct agent *agent) {
  struct lstm *lstm = agent->own = check_alloc(1, sizeof(*lstm));
  int H = agent->config.lstm_size;
  agent->state_size = 2 * H;
  torso_declare(agent, &lstm->torso);
  lstm->input = dense_declare(agent, "lstm", lstm->torso.outputs, 4 * H, ACTIVATION_NONE);
  lstm->recurrent = agent_declare(agent, "lstm/wh", 2, H, 4 * H);
  lstm->head = head_declare(agent, H);
}

static void init_uniform(const struct agent *agent, int index, float *host, uint64_t seed,
                         double limit) {
  const struct agent_parameter *parameter = &agent->parameter[index];
  for (size_t i = 0; i < parameter->count; i++) {
    float uniform = random_uniform(seed, (uint32_t)index, 0, (uint32_t)i, RANDOM_PARAMETERS);
    host[parameter->offset + i] = (float)(limit * (2.0 * uniform - 1));
  }
}

static void init(const struct agent *agent, float *host, uint64_t seed) {
  const struct lstm *lstm = agent->own;
  double limit = 1 / sqrt(agent->config.lstm_size);
  torso_init(agent, &lstm->torso, host, seed);
  init_uniform(agent, lstm->input.weight, host, seed, limit);
  init_uniform(agent, lstm->input.bias, host, seed, 0);
  init_uniform(agent, lstm->recurrent, host, seed, limit);
  head_init(agent, &lstm->head, host, seed);
}

static void allocate(struct agent_workspace *workspace) {
  const struct lstm *lstm = workspace->agent->own;
  struct buffers *own = workspace->own = check_alloc(1, sizeof(*own));
  int H = workspace->agent->config.lstm_size;
  torso_allocate(workspace, &own->torso, &lstm->torso);
  own->h = workspace_reals(workspace, H);
  own->c = workspace_reals(workspace, H);
  own->gates = workspace_reals(workspace, 4 * H);
  own->h0 = workspace_reals(workspace, H);
  own->c0 = workspace_reals(workspace, H);
  if (!workspace->backward) return;
  own->dh = workspace_reals(workspace, H);
  own->dgates = workspace_reals(workspace, 4 * H);
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

static void forward(struct agent_workspace *workspace, real *state_out, const real *params,
                    const struct device_inputs *inputs, const real *state_in, int T, int N) {
  const struct lstm *lstm = workspace->agent->own;
  struct buffers *own = workspace->own;
  struct device *device = workspace->device;
  int H = workspace->agent->config.lstm_size, B = T * N;
  split_state(device, own->h0, own->c0, state_in, N, H);
  torso_forward(workspace, &own->torso, params, &lstm->torso, B);
  dense_forward(workspace, own->gates, params, torso_output(workspace, &own->torso, &lstm->torso),
                &lstm->input, B);
  device->ops->lstm_forward(device, own->h, own->c, own->gates,
                            parameter_at_const(workspace, params, lstm->recurrent), own->h0,
                            own->c0, inputs->flags, T, N, H);
  dense_forward(workspace, workspace->head, params, own->h, &lstm->head, B);
  size_t last = (size_t)(T - 1) * (size_t)N * (size_t)H;
  if (state_out)
    join_state(device, state_out, device_at(device, own->h, last), device_at(device, own->c, last),
               N, H);
}

static void backward(struct agent_workspace *workspace, real *grads, const real *params,
                     real *dhead, const struct device_inputs *inputs, int T, int N) {
  const struct lstm *lstm = workspace->agent->own;
  struct buffers *own = workspace->own;
  struct device *device = workspace->device;
  int H = workspace->agent->config.lstm_size, B = T * N;
  dense_backward(workspace, own->dh, grads, params, dhead, workspace->head, own->h, &lstm->head, B);
  device->ops->lstm_backward(device, own->dgates, parameter_at(workspace, grads, lstm->recurrent),
                             own->dh, own->h, own->c, own->gates,
                             parameter_at_const(workspace, params, lstm->recurrent), own->h0,
                             own->c0, inputs->flags, T, N, H);
  dense_backward(workspace, torso_gradient(&own->torso, &lstm->torso), grads, params, own->dgates,
                 own->gates, torso_output(workspace, &own->torso, &lstm->torso), &lstm->input, B);
  torso_backward(workspace, &own->torso, grads, params, &lstm->torso, B);
}

const struct network network_lstm = {
    .name = "lstm",
    .check = check,
    .declare = declare,
    .init = init,
    .allocate = allocate,
    .forward = forward,
    .backward = backward,
};
