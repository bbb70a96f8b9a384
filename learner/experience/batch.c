#include "learner/experience/batch.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/step.h"

struct train_batch *train_batch_create(struct device *device, int T, int N,
                                       const struct step_shape *shape) {
  CHECK(T > 0 && N > 0 && shape->state_size >= 0, "a batch of %d x %d, state %d", T, N,
        shape->state_size);
  const struct device_ops *ops = device->ops;
  struct train_batch *batch = check_alloc(1, sizeof(*batch));
  size_t rows = (size_t)(T + 1) * (size_t)N, states = (size_t)N * (size_t)shape->state_size;
  size_t older = (size_t)shape->footprint * (size_t)N;
  *batch = (struct train_batch){.T = T, .N = N, .shape = *shape};
  batch->history = ops->alloc(device, (older + rows) * shape->row_stride);
  batch->observation = batch->history + older * shape->row_stride;
  batch->action = ops->alloc(device, rows * (size_t)shape->action_bytes);
  batch->previous_action = ops->alloc(device, rows * (size_t)shape->action_bytes);
  batch->statistics =
      ops->alloc(device, rows * (size_t)shape->statistics * sizeof(*batch->statistics));
  batch->reward = ops->alloc(device, rows * sizeof(*batch->reward));
  batch->flags = ops->alloc(device, rows * sizeof(*batch->flags));
  if (states) batch->state = ops->alloc(device, states * ops->real_bytes);
  batch->stamp = check_alloc(rows, sizeof(*batch->stamp));
  batch->depth = check_alloc((size_t)N, sizeof(*batch->depth));
  batch->window = check_alloc((size_t)N, sizeof(*batch->window));
  batch->gather = device_share(device, (size_t)N * TRAIN_BATCH_ENTRY);
  batch->weight = device_share(device, (size_t)N * sizeof(float));
  batch->priority = device_share(device, (size_t)N * sizeof(float));
  return batch;
}

void train_batch_keep_next(struct device *device, struct train_batch *batch, int next_step) {
  size_t states = (size_t)batch->N * (size_t)batch->shape.state_size;
  CHECK(states && next_step > 0 && next_step <= batch->T, "the state before step %d of %d",
        next_step, batch->T);
  batch->next_state = device->ops->alloc(device, states * device->ops->real_bytes);
  batch->next_step = next_step;
}

void train_batch_make_blank(struct device *device, struct train_batch *batch) {
  const struct device_ops *ops = device->ops;
  size_t rows = (size_t)(batch->T + 1) * (size_t)batch->N;
  uint8_t *flags = ops->alloc_host(device, rows);
  memset(flags, STEP_TRUNCATED, rows);
  for (size_t i = 0; i < rows; i++) batch->stamp[i] = step_stamp(0, STEP_TRUNCATED);
  ops->upload_bytes(device, batch->flags, flags, rows);
  device_finish(device);
  ops->release_host(device, flags);
  batch->blank = true;
}

void train_batch_destroy(struct device *device, struct train_batch *batch) {
  if (!batch) return;
  void *arrays[] = {batch->history, batch->action, batch->previous_action, batch->statistics,
                    batch->reward,  batch->flags,  batch->state,           batch->next_state};
  device_release_all(device, arrays, sizeof(arrays) / sizeof(arrays[0]));
  device_unshare(device, &batch->gather);
  device_unshare(device, &batch->weight);
  device_unshare(device, &batch->priority);
  free(batch->stamp);
  free(batch->depth);
  free(batch->window);
  free(batch);
}

struct device_steps train_batch_steps(const struct train_batch *batch) {
  return (struct device_steps){.observation = batch->observation,
                               .reward = batch->reward,
                               .flags = batch->flags,
                               .statistics = batch->statistics,
                               .action = batch->action,
                               .previous_action = batch->previous_action};
}

struct device_inputs train_batch_inputs_from(const struct train_batch *batch,
                                             const struct device_inputs *inputs, int t) {
  size_t rows = (size_t)t * (size_t)batch->N;
  struct device_inputs later = *inputs;
  later.observation += rows * batch->shape.row_stride;
  later.previous_action =
      (const uint8_t *)inputs->previous_action + rows * (size_t)batch->shape.action_bytes;
  later.reward += rows;
  later.flags += rows;
  if (inputs->frame) later.frame += rows * (size_t)batch->shape.footprint;
  return later;
}
