/* Policies without parameters, to measure the system and to test it: random, and scripted, which
 * plays CartPole by pushing towards the side that the pole leans to. */
#include "common/base/check.h"
#include "learner/network/kind.h"

/* ---- random: all outputs 0 */

static void random_forward(struct network_workspace *workspace, real *state_out, const real *params,
                           const struct device_inputs *inputs, const real *state_in, int T, int N) {
  (void)state_out, (void)params, (void)inputs, (void)state_in;
  size_t outputs = (size_t)workspace->network->outputs;
  device_fill(workspace->device, workspace->head, 0, (size_t)T * (size_t)N * outputs);
}

const struct network_kind kind_random = {
    .name = "random",
    .blind = true,
    .forward = random_forward,
};

/* ---- scripted */

enum { ANGLE = 2, LEFT = 0, RIGHT = 1, ACTIONS = 2 }; /* CartPole's */
static const float UNLIKELY = -100;                   /* a logit that is sampled once in e^100 */

struct scripted {
  float *inputs; /* (rows, I) */
  float *head;   /* (rows, outputs) */
};

static enum status scripted_check(const struct network_config *config, struct error *error) {
  const struct device_inputs *in = &config->inputs;
  if (in->tensor[0].dtype == DTYPE_FLOAT32 && in->tensor[0].count > ANGLE &&
      in->discrete == ACTIONS)
    return STATUS_OK;
  return status_fail(
      error, STATUS_INVALID,
      "network scripted plays CartPole only: it needs a float32 tensor of at least %d "
      "elements first and %d actions; use network random here",
      ANGLE + 1, ACTIONS);
}

/* One block of host memory, so that one free is enough. */
static void scripted_allocate(struct network_workspace *workspace) {
  size_t rows = (size_t)workspace->rows, inputs = rows * (size_t)workspace->network->inputs_size;
  size_t head = rows * (size_t)workspace->network->outputs;
  CHECK(workspace->network->config.head_size == ACTIONS, "network scripted has a logit an action");
  struct scripted *own = check_alloc(1, sizeof(*own) + (inputs + head) * sizeof(float));
  own->inputs = (float *)(own + 1);
  own->head = own->inputs + inputs;
  workspace->own = own;
}

/* On the host: this policy measures everything but the network, so it need not be fast. */
static void scripted_forward(struct network_workspace *workspace, real *state_out,
                             const real *params, const struct device_inputs *inputs,
                             const real *state_in, int T, int N) {
  (void)state_out, (void)params, (void)inputs, (void)state_in;
  struct device *device = workspace->device;
  struct scripted *own = workspace->own;
  const struct network *network = workspace->network;
  size_t rows = (size_t)T * (size_t)N, I = (size_t)network->inputs_size;
  size_t outputs = (size_t)network->outputs;
  device->ops->download(device, own->inputs, workspace->inputs, rows * I);
  for (size_t row = 0; row < rows; row++) {
    int action = own->inputs[row * I + ANGLE] < 0 ? LEFT : RIGHT;
    own->head[row * outputs + (action == LEFT ? RIGHT : LEFT)] = UNLIKELY;
    own->head[row * outputs + (size_t)action] = 0;
  }
  device->ops->upload(device, workspace->head, own->head, rows * outputs);
}

const struct network_kind kind_scripted = {
    .name = "scripted",
    .check = scripted_check,
    .allocate = scripted_allocate,
    .forward = scripted_forward,
};
