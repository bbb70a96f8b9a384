/* mlp: hidden layers, then the head. */
#include "common/base/check.h"
#include "learner/network/head.h"

struct mlp {
  struct torso torso;
};

static void declare(struct network *network) {
  struct mlp *mlp = network->own = check_alloc(1, sizeof(*mlp));
  torso_declare(network, &mlp->torso);
  head_declare(network, mlp->torso.outputs);
}

static void init(const struct network *network, float *host, uint64_t seed) {
  const struct mlp *mlp = network->own;
  torso_init(network, &mlp->torso, host, seed);
}

static void list_layers(const struct network *network, struct network_layer_list *list) {
  const struct mlp *mlp = network->own;
  torso_list(&mlp->torso, list);
}

static void allocate(struct network_workspace *workspace) {
  const struct mlp *mlp = workspace->network->own;
  struct torso_buffers *buffers = workspace->own = check_alloc(1, sizeof(*buffers));
  torso_allocate(workspace, buffers, &mlp->torso);
}

static void forward(struct network_workspace *workspace, real *state_out, const real *params,
                    const struct device_inputs *inputs, const real *state_in, int T, int N) {
  (void)state_out, (void)inputs, (void)state_in;
  const struct mlp *mlp = workspace->network->own;
  struct torso_buffers *buffers = workspace->own;
  torso_forward(workspace, buffers, params, &mlp->torso, T * N);
  head_forward(workspace, params, torso_output(workspace, buffers, &mlp->torso), T * N);
}

static void backward(struct network_workspace *workspace, real *grads, const real *params,
                     real *dhead, const struct device_inputs *inputs, int T, int N) {
  (void)inputs;
  const struct mlp *mlp = workspace->network->own;
  struct torso_buffers *buffers = workspace->own;
  head_backward(workspace, torso_gradient(workspace, buffers, &mlp->torso), grads, params, dhead,
                torso_output(workspace, buffers, &mlp->torso), T * N);
  torso_backward(workspace, buffers, grads, params, &mlp->torso, T * N);
}

const struct network_kind kind_mlp = {
    .name = "mlp",
    .differentiates = true,
    .declare = declare,
    .init = init,
    .list = list_layers,
    .allocate = allocate,
    .forward = forward,
    .backward = backward,
};
