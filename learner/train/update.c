#include "learner/train/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/train/entropy.h"
#include "learner/train/optimizer.h"
#include "learner/train/reduction.h"
#include "learner/train/state.h"
#include "learner/train/update_stats.h"

struct update {
  /* read-only after create */
  struct learner_options options; /* its strings are borrowed */
  const struct algorithm *algorithm;
  struct device *device;
  const struct network *network;
  int T, N;
  struct reduction reduction;

  struct train_state state;
  void *learner; /* the algorithm's own */

  struct device_schedule *host_schedule; /* memory of alloc_host, and its copy on the device */
  struct device_schedule *schedule;

  /* The update that was started and whose statistics nobody has read yet. */
  struct {
    bool started;
    struct schedule schedule;
    double lag_updates;
    void *scalars; /* memory of alloc_host: the loss's sums, then the gradient's norm, in reals */
    uint64_t mark; /* when they are there */
  } flight;

  /* device memory of one step */
  real *gradient; /* (P + sums + 1): the gradient, the loss's sums, the gradient's norm */
  struct device_shared frame; /* (T+1, N, stack - 1), NULL where frames are not stacked */
};

/* ---- create */

static enum status check_options(const struct learner_options *options,
                                 const struct network *network, struct error *error) {
  const char *decay = options->learning_rate_decay;
  bool linear = strcmp(decay, "linear") == 0;
  if (!linear && strcmp(decay, "none") != 0)
    return status_fail(error, STATUS_INVALID, "--learning_rate_decay=%s: there are none and linear",
                       decay);
  if (linear && options->total_steps <= 0)
    return status_fail(error, STATUS_INVALID,
                       "--learning_rate_decay=linear needs --total_steps above 0");
  int64_t T = options->unroll_length, N = learner_options_batch_size(options);
  if (T < 1 || N < 1 || T >= INT32_MAX || N > INT32_MAX / (T + 1))
    return status_fail(error, STATUS_INVALID,
                       "a training batch of %lld windows of %lld steps: both must be at least 1",
                       (long long)N, (long long)T);
  if (network_num_parameters(network) == 0)
    return status_fail(error, STATUS_INVALID,
                       "this network has no parameters, so it cannot be trained");
  return STATUS_OK;
}

static enum status init_state(struct update *update, struct error *error) {
  const struct learner_options *options = &update->options;
  struct optimizer_config optimizer = {
      .name = options->optimizer,
      .adam_beta1 = options->adam_beta1,
      .adam_beta2 = options->adam_beta2,
      .adam_epsilon = options->adam_epsilon,
      .adam_epsilon_hat = options->adam_epsilon_hat,
      .rmsprop_decay = options->rmsprop_decay,
      .rmsprop_momentum = options->rmsprop_momentum,
      .rmsprop_epsilon = options->rmsprop_epsilon,
      .max_norm = options->max_gradient_norm,
  };
  struct entropy_cost entropy;
  enum status status = entropy_cost_init(&entropy, options->entropy_cost, options->target_entropy,
                                         options->entropy_adjustment_speed, error);
  if (status != STATUS_OK) return status;
  return train_state_init(&update->state, update->device, update->network, &optimizer, &entropy,
                          update->algorithm && update->algorithm->has_target,
                          (uint64_t)options->seed, error);
}

/* The optimiser looks at the sums: it cannot skip an update for what follows from them later. */
static void check_terms(const struct algorithm *algorithm) {
  for (int i = 0; i < algorithm->num_terms; i++)
    CHECK(!algorithm->terms[i].checked || algorithm->terms[i].sum >= 0,
          "%s is checked, but no mean of a sum", algorithm->terms[i].name);
}

static void make_learner(struct update *update) {
  check_terms(update->algorithm);
  const struct device_ops *ops = update->device->ops;
  struct learning learning = {update->device, update->network, &update->options};
  update->learner = update->algorithm->create(&learning);
  size_t numbers = update->state.P + (size_t)update->algorithm->num_sums + 1;
  update->gradient = ops->alloc(update->device, numbers * ops->real_bytes);
  update->host_schedule = ops->alloc_host(update->device, sizeof(*update->host_schedule));
  update->schedule = ops->alloc(update->device, sizeof(*update->schedule));
  update->flight.scalars = ops->alloc_host(update->device, (LOSS_MAX_SUMS + 1) * ops->real_bytes);
  int stack = network_inputs(update->network)->stack;
  size_t rows = (size_t)(update->T + 1) * (size_t)update->N;
  if (stack > 1)
    update->frame = device_share(update->device, rows * (size_t)(stack - 1) * sizeof(int32_t));
}

enum status update_create(struct update **out, struct device *device, const struct network *network,
                          const struct algorithm *algorithm, const struct learner_options *options,
                          struct error *error) {
  *out = NULL;
  enum status status = check_options(options, network, error);
  if (status != STATUS_OK) return status;

  struct update *update = check_alloc(1, sizeof(*update));
  *update = (struct update){.options = *options,
                            .algorithm = algorithm,
                            .device = device,
                            .network = network,
                            .T = learner_options_window_steps(options),
                            .N = learner_options_batch_size(options),
                            .reduction = {.rank = 0, .learners = 1}};
  status = init_state(update, error);
  if (status != STATUS_OK) {
    free(update);
    return status;
  }
  if (algorithm) make_learner(update);
  *out = update;
  return STATUS_OK;
}

void update_destroy(struct update *update) {
  if (!update) return;
  const struct device_ops *ops = update->device->ops;
  if (update->algorithm) update->algorithm->destroy(update->learner);
  device_unshare(update->device, &update->frame);
  if (update->gradient) ops->release(update->device, update->gradient);
  if (update->schedule) ops->release(update->device, update->schedule);
  if (update->flight.scalars) ops->release_host(update->device, update->flight.scalars);
  if (update->host_schedule) ops->release_host(update->device, update->host_schedule);
  train_state_deinit(&update->state);
  free(update);
}

/* ---- one step */

void update_stack_frames(int32_t *frame, const struct train_batch *batch, int stack) {
  int footprint = batch->shape.footprint, N = batch->N;
  CHECK(footprint == stack - 1, "%d frames before a window, the network stacks %d", footprint,
        stack);
  for (int n = 0; n < N; n++) {
    int depth = batch->depth[n];
    for (int t = 0; t <= batch->T; t++) {
      int32_t *row = frame + ((size_t)t * (size_t)N + (size_t)n) * (size_t)footprint;
      if (step_stamp_flags(*train_batch_stamp(batch, t, n)) & STEP_FIRST) depth = 0;
      for (int k = 1; k <= footprint; k++)
        row[k - 1] = k > depth ? -1 : (footprint + t - k) * N + n;
      if (depth < footprint) depth++;
    }
  }
}

static struct device_inputs inputs_of(const struct update *update,
                                      const struct train_batch *batch) {
  struct device_inputs inputs = *network_inputs(update->network);
  CHECK(batch->T == update->T && batch->N == update->N, "a batch of %d x %d steps, not %d x %d",
        batch->T, batch->N, update->T, update->N);
  CHECK(batch->shape.row_stride == inputs.row_stride,
        "batch rows of %zu bytes, the network reads %zu", batch->shape.row_stride,
        inputs.row_stride);
  inputs.observation = batch->observation;
  inputs.previous_action = batch->previous_action;
  inputs.reward = batch->reward;
  inputs.flags = batch->flags;
  if (update->frame.host) {
    update_stack_frames(update->frame.host, batch, inputs.stack);
    device_shared_upload(update->device, &update->frame);
    inputs.history = batch->history;
    inputs.frame = update->frame.memory;
  }
  return inputs;
}

size_t update_image_numbers(const struct update *update) {
  const struct device_inputs *inputs = network_inputs(update->network);
  return (size_t)inputs->tensor[0].count * (size_t)(inputs->stack > 1 ? inputs->stack : 1);
}

int update_images(struct update *update, pixel *images, const struct train_batch *batch, int rows) {
  struct device_inputs inputs = inputs_of(update, batch);
  int B = rows < batch->N ? rows : batch->N;
  update->device->ops->image(update->device, images, &inputs, B);
  return B;
}

static double learning_rate_at(const struct update *update, int64_t environment_steps) {
  const struct learner_options *options = &update->options;
  if (strcmp(options->learning_rate_decay, "none") == 0) return options->learning_rate;
  double left = 1 - (double)environment_steps / (double)options->total_steps;
  return options->learning_rate * fmin(1, fmax(0, left));
}

/* What is in force, here and on the device. The update before has been finished, so its schedule
 * may be overwritten. */
static struct schedule schedule_at(const struct update *update, int64_t environment_steps) {
  struct schedule schedule = {.update = update->state.version + 1,
                              .learning_rate = learning_rate_at(update, environment_steps),
                              .entropy_cost = entropy_cost_now(&update->state.entropy)};
  *update->host_schedule = (struct device_schedule){.step = update->state.version + 1,
                                                    .learning_rate = (float)schedule.learning_rate,
                                                    .entropy_cost = (float)schedule.entropy_cost};
  schedule.device = device_stage(update->device, update->schedule, update->host_schedule,
                                 sizeof(*update->schedule));
  return schedule;
}

void update_start(struct update *update, const struct train_batch *batch,
                  int64_t environment_steps) {
  struct device *device = update->device;
  struct train_state *state = &update->state;
  size_t num_sums = (size_t)update->algorithm->num_sums;
  real *sums = device_at(device, update->gradient, state->P);
  real *norm = device_at(device, sums, num_sums);
  CHECK(!update->flight.started, "an update is started whose predecessor has not been finished");
  const struct device_inputs inputs = inputs_of(update, batch);
  const struct schedule schedule = schedule_at(update, environment_steps);

  device->ops->weights_changed(device);
  const struct parameters params = {state->array[0], state->array[STATE_TARGET]};
  update->algorithm->gradient(update->learner, update->gradient, &params, batch, &inputs,
                              &schedule);
  reduction_apply(&update->reduction, device, update->gradient, state->P, num_sums);
  device->ops->global_norm(device, norm, update->gradient, state->P);
  device->ops->require_finite(device, norm, sums, num_sums);
  /* The norm as the optimiser reads it: both see whether this update is skipped. */
  device->ops->download_bytes(device, update->flight.scalars, sums,
                              (num_sums + 1) * device->ops->real_bytes);
  if (update->algorithm->gives_priorities)
    device_shared_download(device, &batch->priority, batch->priority.bytes);
  optimizer_apply(state->optimizer, state->array[0], update->gradient, norm, schedule.device);

  update->flight.started = true;
  update->flight.schedule = schedule;
  update->flight.lag_updates = update_stats_lag(batch, state->version);
  update->flight.mark = device->ops->mark(device);
  state->version++;
}

/* From the device's reals. */
static void read_scalars(const struct update *update, double scalar[LOSS_MAX_SUMS + 1]) {
  const void *scalars = update->flight.scalars;
  bool wide = update->device->ops->real_bytes == sizeof(double);
  for (int i = 0; i <= update->algorithm->num_sums; i++)
    scalar[i] = wide ? ((const double *)scalars)[i] : (double)((const float *)scalars)[i];
}

static struct update_stats stats_of(const struct update *update) {
  const struct algorithm *algorithm = update->algorithm;
  const struct schedule *schedule = &update->flight.schedule;
  double scalar[LOSS_MAX_SUMS + 1];
  read_scalars(update, scalar);
  struct update_stats stats = update_stats_read(scalar, scalar[algorithm->num_sums], algorithm);
  algorithm->complete(update->learner, &stats.losses, schedule);
  stats.losses.total += entropy_cost_loss(&update->state.entropy, stats.losses.entropy);
  stats.learning_rate = schedule->learning_rate;
  stats.entropy_cost = schedule->entropy_cost;
  stats.lag_updates = update->flight.lag_updates;
  return stats;
}

/* After an update that was not skipped. */
static void copy_to_target(struct update *update) {
  struct train_state *state = &update->state;
  if (!state->array[STATE_TARGET] || state->version % update->options.target_update) return;
  update->device->ops->copy(update->device, state->array[STATE_TARGET], state->array[0], state->P);
}

enum status update_finish(struct update *update, struct update_stats *stats, struct error *error) {
  CHECK(update->flight.started, "no update has been started");
  update->device->ops->wait(update->device, update->flight.mark);
  update->flight.started = false;
  *stats = stats_of(update);
  enum status status = update_stats_check(stats, update->algorithm, update->state.version, error);
  if (status != STATUS_OK) {
    update->state.version--; /* the optimiser has skipped it */
    return status;
  }
  entropy_cost_adjust(&update->state.entropy, stats->losses.entropy, stats->learning_rate);
  copy_to_target(update);
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
