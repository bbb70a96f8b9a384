#include "learner/experience/batch.h"

#include <stdlib.h>

#include "common/base/check.h"

struct train_batch *train_batch_create(struct device *device, int T, int N, size_t row_stride,
                                       int state_size) {
  return train_batch_create_stacked(device, T, N, row_stride, state_size, 0);
}

struct train_batch *train_batch_create_stacked(struct device *device, int T, int N,
                                               size_t row_stride, int state_size, int footprint) {
  CHECK(T > 0 && N > 0 && state_size >= 0, "a batch of %d x %d, state %d", T, N, state_size);
  const struct device_ops *ops = device->ops;
  struct train_batch *batch = check_alloc(1, sizeof(*batch));
  size_t rows = (size_t)(T + 1) * (size_t)N, states = (size_t)N * (size_t)state_size;
  *batch = (struct train_batch){.T = T, .N = N, .row_stride = row_stride, .state_size = state_size};
  batch->observation = ops->alloc(device, rows * row_stride);
  batch->action = ops->alloc(device, rows * sizeof(*batch->action));
  batch->previous_action = ops->alloc(device, rows * sizeof(*batch->previous_action));
  batch->behaviour = ops->alloc(device, rows * sizeof(*batch->behaviour));
  batch->reward = ops->alloc(device, rows * sizeof(*batch->reward));
  batch->flags = ops->alloc(device, rows * sizeof(*batch->flags));
  batch->version = ops->alloc(device, rows * sizeof(*batch->version));
  batch->window = ops->alloc(device, (size_t)N * sizeof(*batch->window));
  batch->footprint = footprint;
  batch->depth = ops->alloc(device, (size_t)N * sizeof(*batch->depth));
  if (footprint) batch->older = ops->alloc(device, (size_t)footprint * (size_t)N * row_stride);
  if (states) batch->state = ops->alloc(device, states * ops->real_bytes);
  return batch;
}

void train_batch_destroy(struct device *device, struct train_batch *batch) {
  if (!batch) return;
  void *arrays[] = {batch->observation, batch->action, batch->previous_action,
                    batch->behaviour,   batch->reward, batch->flags,
                    batch->version,     batch->window, batch->state,
                    batch->older,       batch->depth};
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
    if (arrays[i]) device->ops->release(device, arrays[i]);
  free(batch);
}
