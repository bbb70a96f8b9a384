#include "learner/serve/acting.h"

#include <string.h>

#include "common/base/check.h"

/* ---- sizes */

/* Whether the batch is recorded. A network without parameters may compute on the host. */
static bool records(const struct acting *acting) {
  return acting->device->ops->record && network_num_parameters(acting->network) > 0;
}

/* Powers of two; from 64 on also one and a half of each, so that no more than a third of the rows
 * is padding. */
static void make_sizes(struct acting *acting) {
  enum { HALVES_FROM = 64 };
  int size = 1;
  while (size < acting->max_rows) {
    CHECK(acting->num_sizes < ACTING_MAX_SIZES - 1, "%d rows in a batch", acting->max_rows);
    acting->size[acting->num_sizes++] = size;
    bool is_power = (size & (size - 1)) == 0;
    size = is_power && size >= HALVES_FROM ? size / 2 * 3 : is_power ? size * 2 : size / 3 * 4;
  }
  acting->size[acting->num_sizes++] = acting->max_rows;
}

/* Which of the sizes has room for so many rows. */
static int size_for(const struct acting *acting, int rows) {
  int at = 0;
  while (acting->size[at] < rows) at++;
  return at;
}

/* ---- create */

void acting_init(struct acting *acting) {
  const struct device_ops *ops = acting->device->ops;
  acting->workspace =
      network_workspace_create(acting->network, acting->device, acting->max_rows, false);
  if (!ops->unified) make_sizes(acting);
  if (records(acting))
    acting->params =
        ops->alloc(acting->device, network_num_parameters(acting->network) * ops->real_bytes);
}

void acting_deinit(struct acting *acting) {
  if (acting->params) acting->device->ops->release(acting->device, acting->params);
  network_workspace_destroy(acting->workspace);
}

void acting_batch_init(const struct acting *acting, struct acting_batch *batch) {
  const struct step_shape *shape = &acting->shape;
  struct device *device = acting->device;
  size_t rows = (size_t)acting->max_rows;
  *batch = (struct acting_batch){.rows = memory_rows_create(acting->memory, acting->max_rows)};
  if (!device->ops->unified)
    batch->observation = device->ops->alloc(device, rows * shape->row_stride);
  batch->action = device_share(device, rows * (size_t)shape->action_bytes);
  batch->statistics = device_share(device, rows * (size_t)shape->statistics * sizeof(float));
  batch->steps.action = batch->action.memory;
  batch->steps.statistics = batch->statistics.memory;
}

void acting_batch_deinit(const struct acting *acting, struct acting_batch *batch) {
  struct device *device = acting->device;
  for (int i = 0; i < acting->num_sizes; i++) recorded_forget(&batch->recorded[i], device);
  device_unshare(device, &batch->action);
  device_unshare(device, &batch->statistics);
  if (batch->observation) device->ops->release(device, batch->observation);
  memory_rows_destroy(acting->memory, &batch->rows);
}

/* ---- a batch */

/* The copy follows what batches before it compute with the older ones. */
void acting_set_params(struct acting *acting, const real *params) {
  const struct device_ops *ops = acting->device->ops;
  acting->given = params;
  if (acting->params)
    device_copy(acting->device, acting->params, params, network_num_parameters(acting->network));
  ops->weights_changed(acting->device);
}

void acting_begin(const struct acting *acting, struct acting_batch *batch, int num_rows) {
  batch->num_rows = batch->B = num_rows;
  if (acting->num_sizes) {
    batch->B = acting->size[size_for(acting, num_rows)];
    memory_rows_lay_out(acting->memory, &batch->rows, batch->B);
  }
  batch->params = acting->params ? acting->params : acting->given;
  batch->begins_windows = false;
}

/* Observations are uploaded where they are; the small arrays go with what the host remembers. */
static void stage(const struct acting *acting, struct acting_batch *batch,
                  const struct row_batch *from) {
  struct device *device = acting->device;
  const struct memory_rows *rows = &batch->rows;
  struct device_steps *steps = &batch->steps;
  size_t n = (size_t)batch->num_rows, padding = (size_t)(batch->B - batch->num_rows);
  steps->observation =
      device_stage(device, batch->observation, from->observation, n * acting->shape.row_stride);
  if (device->ops->unified) {
    steps->reward = from->reward;
    steps->flags = from->flags;
    return;
  }
  memcpy(rows->reward, from->reward, n * sizeof(*rows->reward));
  memset(rows->reward + n, 0, padding * sizeof(*rows->reward));
  memcpy(rows->flags, from->flags, n);
  memset(rows->flags + n, 0, padding);
  steps->reward = device_shared_at(&rows->block, rows->reward);
  steps->flags = device_shared_at(&rows->block, rows->flags);
}

/* What the recorded function is given. */
struct call {
  const struct acting *acting;
  struct acting_batch *batch;
};

/* Forward, then an action and its statistics for every row. */
static void give_choice(const struct acting *acting, struct acting_batch *batch) {
  struct device *device = acting->device;
  int B = batch->B;
  struct device_inputs inputs = acting->inputs;
  inputs.observation = batch->steps.observation;
  inputs.reward = batch->steps.reward;
  inputs.flags = batch->steps.flags;
  memory_rows_begin(acting->memory, &batch->rows, &inputs, acting->seed, B);
  network_forward(acting->workspace, &batch->out, batch->rows.state_out, batch->params, &inputs,
                  batch->rows.state_in, 1, B);
  struct policy_rows rows = {.uniform = batch->rows.uniform,
                             .epsilon = device_shared_at(&batch->rows.block, batch->rows.epsilon)};
  acting->policy->choose(device, batch->steps.action, batch->steps.statistics, &batch->out, &rows,
                         B);
  device_shared_download(device, &batch->action, (size_t)B * (size_t)acting->shape.action_bytes);
  if (acting->keeps_trail)
    device_shared_download(device, &batch->statistics,
                           (size_t)B * (size_t)acting->shape.statistics * sizeof(float));
}

static void give_filing(const struct acting *acting, const struct acting_batch *batch) {
  const struct memory_rows *rows = &batch->rows;
  memory_rows_end(acting->memory, rows, batch->steps.observation, batch->B);
  if (!acting->pages) return;
  pages_write(acting->pages, device_shared_at(&rows->block, rows->place), &batch->steps, batch->B);
  if (batch->begins_windows || acting->params)
    pages_write_starts(acting->pages, device_shared_at(&rows->block, rows->start),
                       device_shared_at(&rows->block, rows->previous_action), rows->state_in,
                       batch->B);
}

/* All of a batch, on an asynchronous device. */
static void give_batch(void *context) {
  const struct call *call = context;
  give_choice(call->acting, call->batch);
  give_filing(call->acting, call->batch);
}

void acting_choose(const struct acting *acting, struct acting_batch *batch,
                   const struct row_batch *rows, const struct network_noise *noise) {
  struct device *device = acting->device;
  struct call call = {acting, batch};
  stage(acting, batch, rows);
  if (noise) network_set_noise(acting->workspace, noise);
  if (acting->params)
    recorded_run(&batch->recorded[size_for(acting, batch->num_rows)], device, give_batch, &call);
  else if (device->ops->asynchronous)
    give_batch(&call);
  else
    give_choice(acting, batch);
  batch->chosen = device->ops->mark(device);
}

void acting_file(const struct acting *acting, struct acting_batch *batch) {
  if (!acting->device->ops->asynchronous) give_filing(acting, batch);
}
