#include "learner/train/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/rpc/wire.h"
#include "learner/train/state.h"
#include "learner/train/update_stats.h"

enum decay { DECAY_NONE, DECAY_LINEAR };

struct update {
  struct update_config config; /* read-only after create; strings NULL */
  enum decay decay;
  struct device *device;
  const struct network *network;
  int actions;

  struct train_state state;
  struct network_workspace *workspace; /* (T+1)*N rows */

  /* device memory of one step */
  real *value;              /* (T+1, N) */
  real *log_prob, *entropy; /* (T, N), and so all but the last */
  real *vs, *advantage;
  real *d_log_prob, *d_entropy, *d_value;
  real *d_head;          /* (T*N, A+1) */
  real *gradient;        /* (P) */
  real *scalars;         /* (UPDATE_SCALARS) */
  const uint8_t **frame; /* (T+1, N, stack), NULL where frames are not stacked */
};

/* ---- create */

static enum status read_decay(enum decay *decay, const struct update_config *config,
                              struct error *error) {
  const char *name = config->learning_rate_decay;
  bool linear = strcmp(name, "linear") == 0;
  *decay = linear ? DECAY_LINEAR : DECAY_NONE;
  if (!linear && strcmp(name, "none") != 0)
    return status_fail(error, STATUS_INVALID, "--learning_rate_decay=%s: there are none and linear",
                       name);
  if (linear && config->total_steps <= 0)
    return status_fail(error, STATUS_INVALID,
                       "--learning_rate_decay=linear needs --total_steps above 0");
  return STATUS_OK;
}

static enum status check_sizes(const struct update_config *config, const struct network *network,
                               struct error *error) {
  if (config->T < 1 || config->N < 1 || ((int64_t)config->T + 1) * config->N > INT32_MAX)
    return status_fail(error, STATUS_INVALID,
                       "a training batch of %d windows of %d steps: both must be at least 1",
                       config->N, config->T);
  if (network_num_parameters(network) == 0)
    return status_fail(error, STATUS_INVALID,
                       "this network has no parameters, so it cannot be trained");
  return STATUS_OK;
}

static enum status init_state(struct update *update, const struct update_config *config,
                              struct error *error) {
  struct optimizer_config optimizer = {
      .name = config->optimizer,
      .adam_beta1 = config->adam_beta1,
      .adam_beta2 = config->adam_beta2,
      .adam_epsilon = config->adam_epsilon,
      .rmsprop_decay = config->rmsprop_decay,
      .rmsprop_momentum = config->rmsprop_momentum,
      .rmsprop_epsilon = config->rmsprop_epsilon,
      .max_norm = config->max_gradient_norm,
  };
  struct entropy_cost entropy;
  enum status status = entropy_cost_init(&entropy, config->entropy_cost, config->target_entropy,
                                         config->entropy_adjustment_speed, error);
  if (status != STATUS_OK) return status;
  return train_state_init(&update->state, update->device, update->network, &optimizer, &entropy,
                          config->seed, error);
}

static real *reals(const struct update *update, size_t count) {
  return update->device->ops->alloc(update->device, count * update->device->ops->real_bytes);
}

static void allocate(struct update *update) {
  size_t N = (size_t)update->config.N, steps = (size_t)update->config.T * N;
  update->workspace =
      network_workspace_create(update->network, update->device, (int)(steps + N), true);
  update->value = reals(update, steps + N);
  update->log_prob = reals(update, steps);
  update->entropy = reals(update, steps);
  update->vs = reals(update, steps);
  update->advantage = reals(update, steps);
  update->d_log_prob = reals(update, steps);
  update->d_entropy = reals(update, steps);
  update->d_value = reals(update, steps);
  update->d_head = reals(update, steps * (size_t)(update->actions + 1));
  update->gradient = reals(update, update->state.P);
  update->scalars = reals(update, UPDATE_SCALARS);
  int stack = network_inputs(update->network)->stack;
  if (stack > 1)
    update->frame = update->device->ops->alloc(
        update->device, (steps + N) * (size_t)stack * sizeof(*update->frame));
}

enum status update_create(struct update **out, struct device *device, const struct network *network,
                          const struct update_config *config, struct error *error) {
  *out = NULL;
  enum decay decay;
  enum status status = check_sizes(config, network, error);
  if (status == STATUS_OK) status = read_decay(&decay, config, error);
  if (status != STATUS_OK) return status;

  struct update *update = check_alloc(1, sizeof(*update));
  *update = (struct update){.config = *config,
                            .decay = decay,
                            .device = device,
                            .network = network,
                            .actions = network_head_size(network)};
  update->config.optimizer = update->config.learning_rate_decay = NULL;
  status = init_state(update, config, error);
  if (status != STATUS_OK) {
    free(update);
    return status;
  }
  allocate(update);
  *out = update;
  return STATUS_OK;
}

void update_destroy(struct update *update) {
  if (!update) return;
  real *arrays[] = {update->value,     update->log_prob,   update->entropy,   update->vs,
                    update->advantage, update->d_log_prob, update->d_entropy, update->d_value,
                    update->d_head,    update->gradient,   update->scalars};
  if (update->frame) update->device->ops->release(update->device, update->frame);
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
    update->device->ops->release(update->device, arrays[i]);
  network_workspace_destroy(update->workspace);
  train_state_deinit(&update->state);
  free(update);
}

/* ---- one step */

/* The observation of a column k steps before step t, which may be before the window. */
static const uint8_t *frame_before(const struct train_batch *batch, int t, int n, int k) {
  size_t N = (size_t)batch->N, row = (size_t)n;
  if (k > t) return batch->older + ((size_t)(k - t - 1) * N + row) * batch->shape.row_stride;
  return batch->observation + ((size_t)(t - k) * N + row) * batch->shape.row_stride;
}

void update_stack_frames(const uint8_t **frame, const struct train_batch *batch, int stack) {
  CHECK(batch->shape.footprint == stack - 1, "%d frames before a window, the network stacks %d",
        batch->shape.footprint, stack);
  for (int n = 0; n < batch->N; n++) {
    int depth = batch->depth[n];
    for (int t = 0; t <= batch->T; t++) {
      size_t row = (size_t)t * (size_t)batch->N + (size_t)n;
      if (batch->flags[row] & STEP_FIRST) depth = 0;
      for (int k = 0; k < stack; k++)
        frame[row * (size_t)stack + (size_t)k] = k > depth ? NULL : frame_before(batch, t, n, k);
      if (depth < stack - 1) depth++;
    }
  }
}

static struct device_inputs inputs_of(const struct update *update,
                                      const struct train_batch *batch) {
  struct device_inputs inputs = *network_inputs(update->network);
  CHECK(batch->T == update->config.T && batch->N == update->config.N,
        "a batch of %d x %d steps, not %d x %d", batch->T, batch->N, update->config.T,
        update->config.N);
  CHECK(batch->shape.row_stride == inputs.row_stride,
        "batch rows of %zu bytes, the network reads %zu", batch->shape.row_stride,
        inputs.row_stride);
  inputs.observation = batch->observation;
  inputs.previous_action = batch->previous_action;
  inputs.reward = batch->reward;
  inputs.flags = batch->flags;
  inputs.frame = update->frame;
  if (update->frame) update_stack_frames(update->frame, batch, inputs.stack);
  return inputs;
}

size_t update_image_numbers(const struct update *update) {
  const struct device_inputs *inputs = network_inputs(update->network);
  return (size_t)inputs->tensor[0].count * (size_t)(inputs->stack > 1 ? inputs->stack : 1);
}

int update_images(struct update *update, real *images, const struct train_batch *batch, int rows) {
  struct device_inputs inputs = inputs_of(update, batch);
  int B = rows < batch->N ? rows : batch->N;
  update->device->ops->image(update->device, images, &inputs, B);
  return B;
}

static struct device_vtrace vtrace_of(const struct update *update,
                                      const struct train_batch *batch) {
  const struct update_config *config = &update->config;
  return (struct device_vtrace){
      .T = config->T,
      .N = config->N,
      .discount = (float)config->discount,
      .lambda = (float)config->lambda,
      .rho_clip = (float)config->rho_clip,
      .c_clip = (float)config->c_clip,
      .pg_rho_clip = (float)config->pg_rho_clip,
      .reward_scale = (float)config->reward_scale,
      .reward_clip = (float)config->reward_clip,
      .log_prob = update->log_prob,
      .behaviour = batch->statistics,
      .value = update->value,
      .reward = batch->reward,
      .flags = batch->flags,
  };
}

/* Heads of all T+1 steps, the last for its value only. */
static struct network_outputs forward(struct update *update, const struct train_batch *batch,
                                      const struct device_inputs *inputs) {
  const struct device_ops *ops = update->device->ops;
  int T = batch->T, N = batch->N, A = update->actions;
  struct network_outputs out;
  network_forward(update->workspace, &out, NULL, update->state.array[0], inputs, batch->state,
                  T + 1, N);
  ops->categorical_evaluate(update->device, update->log_prob, update->entropy, out.head, out.stride,
                            batch->action, T * N, A);
  ops->copy_rows(update->device, update->value, 1, device_at(update->device, out.head, (size_t)A),
                 out.stride, (T + 1) * N, 1);
  return out;
}

/* Targets, losses, and their gradients at the heads. */
static void losses(struct update *update, const struct train_batch *batch,
                   const struct network_outputs *out) {
  const struct device_ops *ops = update->device->ops;
  const struct update_config *config = &update->config;
  int steps = batch->T * batch->N, A = update->actions;
  struct device_vtrace vtrace = vtrace_of(update, batch);
  ops->vtrace(update->device, update->vs, update->advantage, &vtrace);
  ops->vtrace_loss(update->device, update->d_log_prob, update->d_entropy, update->d_value,
                   update->scalars, &vtrace, update->vs, update->advantage, update->entropy,
                   (float)config->baseline_cost, (float)entropy_cost_now(&update->state.entropy),
                   (float)config->kl_cost);
  ops->categorical_backward(update->device, update->d_head, A + 1, out->head, out->stride,
                            batch->action, update->d_log_prob, update->d_entropy, steps, A);
  ops->copy_rows(update->device, device_at(update->device, update->d_head, (size_t)A), A + 1,
                 update->d_value, 1, steps, 1);
}

static double learning_rate_at(const struct update *update, int64_t environment_steps) {
  if (update->decay == DECAY_NONE) return update->config.learning_rate;
  double left = 1 - (double)environment_steps / (double)update->config.total_steps;
  return update->config.learning_rate * fmin(1, fmax(0, left));
}

/* What the step was, before anything changes. */
static struct update_stats stats_of(const struct update *update, const struct train_batch *batch,
                                    int64_t environment_steps) {
  const struct update_config *config = &update->config;
  const struct entropy_cost *cost = &update->state.entropy;
  float scalar[UPDATE_SCALARS];
  update->device->ops->download(update->device, scalar, update->scalars, UPDATE_SCALARS);
  struct update_stats stats = update_stats_read(scalar, batch, update->state.version);
  stats.learning_rate = learning_rate_at(update, environment_steps);
  stats.entropy_cost = entropy_cost_now(cost);
  stats.total_loss = stats.policy_loss + config->baseline_cost * stats.baseline_loss -
                     stats.entropy_cost * stats.entropy + config->kl_cost * stats.kl +
                     entropy_cost_loss(cost, stats.entropy);
  return stats;
}

enum status update_step(struct update *update, const struct train_batch *batch,
                        int64_t environment_steps, struct update_stats *stats,
                        struct error *error) {
  struct device *device = update->device;
  struct train_state *state = &update->state;
  struct device_inputs inputs = inputs_of(update, batch);
  real *norm = device_at(device, update->scalars, GRADIENT_NORM);

  device->ops->weights_changed(device);
  struct network_outputs out = forward(update, batch, &inputs);
  losses(update, batch, &out);
  network_backward(update->workspace, update->gradient, state->array[0], update->d_head,
                   batch->state, &inputs, batch->T, batch->N);
  /* reduce: with several learners the gradients are averaged here */
  device->ops->global_norm(device, norm, update->gradient, state->P);

  *stats = stats_of(update, batch, environment_steps);
  enum status status = update_stats_check(stats, state->version + 1, error);
  if (status != STATUS_OK) return status;

  optimizer_apply(state->optimizer, state->array[0], update->gradient, norm, stats->learning_rate,
                  state->version + 1);
  entropy_cost_adjust(&state->entropy, stats->entropy, stats->learning_rate);
  state->version++;
  return STATUS_OK;
}

/* ---- what it holds */

const real *update_parameters(const struct update *update) {
  return update->state.array[0];
}

size_t update_num_parameters(const struct update *update) {
  return update->state.P;
}

int64_t update_version(const struct update *update) {
  return update->state.version;
}

int update_items(struct update *update, struct checkpoint_item *items) {
  return train_state_items(&update->state, items);
}

void update_save(struct update *update) {
  train_state_save(&update->state);
}

void update_load(struct update *update) {
  train_state_load(&update->state);
}
