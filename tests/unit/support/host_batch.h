/* A training batch that the host can read and write, and its way to and from a device; and a step
 * that the host files. */
#ifndef ACORN_TESTS_SUPPORT_HOST_BATCH_H
#define ACORN_TESTS_SUPPORT_HOST_BATCH_H

#include <stdlib.h>
#include <string.h>

#include "learner/experience/pages.h"
#include "learner/device/create.h"
#include "learner/device/shared.h"

/* The batch is on a reference device, whose memory is the host's. */
struct host_batch {
  struct device *ref;
  struct train_batch *batch;
};

static inline struct host_batch host_batch_create(int T, int N, const struct step_shape *shape) {
  struct host_batch host = {.ref = device_ref_float_create()};
  host.batch = train_batch_create(host.ref, T, N, shape);
  return host;
}

static inline void host_batch_destroy(struct host_batch *host) {
  train_batch_destroy(host->ref, host->batch);
  device_destroy(host->ref);
}

/* The arrays of a batch but for the state, and their sizes. */
struct host_batch_arrays {
  void *array[6];
  size_t bytes[6];
};

static inline struct host_batch_arrays host_batch_arrays(const struct train_batch *b) {
  const struct step_shape *shape = &b->shape;
  size_t rows = (size_t)(b->T + 1) * (size_t)b->N, action = rows * (size_t)shape->action_bytes;
  return (struct host_batch_arrays){
      {b->history, b->action, b->previous_action, b->statistics, b->reward, b->flags},
      {(rows + (size_t)shape->footprint * (size_t)b->N) * shape->row_stride, action, action,
       rows * (size_t)shape->statistics * sizeof(float), rows * sizeof(float), rows}};
}

static inline void host_batch_copy_host(struct train_batch *to, const struct train_batch *from) {
  size_t N = (size_t)from->N, rows = (size_t)(from->T + 1) * N;
  memcpy(to->stamp, from->stamp, rows * sizeof(*to->stamp));
  memcpy(to->depth, from->depth, N * sizeof(*to->depth));
  memcpy(to->window, from->window, N * sizeof(*to->window));
  to->num_windows = from->num_windows;
}

/* From the device to the host. */
static inline void host_batch_read(struct host_batch *host, struct device *device,
                                   const struct train_batch *batch) {
  struct host_batch_arrays to = host_batch_arrays(host->batch), from = host_batch_arrays(batch);
  for (int i = 0; i < 6; i++)
    device->ops->download_bytes(device, to.array[i], from.array[i], to.bytes[i]);
  device_finish(device);
  if (batch->state)
    device->ops->download(device, (float *)host->batch->state, batch->state,
                          (size_t)batch->N * (size_t)batch->shape.state_size);
  host_batch_copy_host(host->batch, batch);
}

/* From the host to the device. */
static inline void host_batch_write(const struct host_batch *host, struct device *device,
                                    struct train_batch *batch) {
  struct host_batch_arrays to = host_batch_arrays(batch), from = host_batch_arrays(host->batch);
  for (int i = 0; i < 6; i++)
    device->ops->upload_bytes(device, to.array[i], from.array[i], to.bytes[i]);
  device_finish(device);
  if (batch->state)
    device->ops->upload(device, batch->state, (const float *)host->batch->state,
                        (size_t)batch->N * (size_t)batch->shape.state_size);
  host_batch_copy_host(batch, host->batch);
}

/* ---- a step */

struct host_step {
  const void *observation; /* (row_stride) */
  const void *action, *previous_action;
  const float *statistics;
  const float *state; /* (S) before the step; NULL when S = 0 */
  float reward;
  uint8_t flags;
  int64_t version;
};

/* Takes so many bytes of the block and writes them. */
static inline void *host_step_part(struct device_shared *block, size_t *offset, const void *from,
                                   size_t bytes) {
  char *at = (char *)block->host + *offset;
  if (from) memcpy(at, from, bytes);
  *offset += (bytes + 15) / 16 * 16;
  return device_shared_at(block, at);
}

/* What the host keeps of the step. */
static inline void host_step_leave_trail(struct pages *pages, const struct step_shape *shape,
                                         int64_t row, const struct host_step *step) {
  const struct pages_rows *rows = pages_rows(pages);
  rows->stamp[row] = step_stamp(step->version, step->flags);
  if (!rows->trail) return;
  float *trail = rows->trail + row * (1 + shape->statistics);
  trail[0] = step->reward;
  memcpy(trail + 1, step->statistics, (size_t)shape->statistics * sizeof(*trail));
}

/* Files a step where pages_append said, as inference does. */
static inline void host_step_file(struct pages *pages, struct device *device,
                                  const struct step_shape *shape, const struct pages_place *place,
                                  const struct host_step *step) {
  size_t action = (size_t)shape->action_bytes, S = (size_t)shape->state_size, offset = 0;
  size_t statistics = (size_t)shape->statistics * sizeof(float);
  int32_t row = (int32_t)place->row, page = place->start;
  if (row < 0) return;
  struct device_shared block =
      device_share(device, shape->row_stride + 2 * action + statistics + 9 * 16);
  struct device_steps steps = {
      .observation = host_step_part(&block, &offset, step->observation, shape->row_stride),
      .reward = host_step_part(&block, &offset, &step->reward, sizeof(float)),
      .flags = host_step_part(&block, &offset, &step->flags, 1),
      .statistics = host_step_part(&block, &offset, step->statistics, statistics),
      .action = host_step_part(&block, &offset, step->action, action)};
  const void *previous = host_step_part(&block, &offset, step->previous_action, action);
  const int32_t *to = host_step_part(&block, &offset, &row, sizeof(row));
  const int32_t *begins = host_step_part(&block, &offset, &page, sizeof(page));
  real *state = device->ops->alloc(device, S * device->ops->real_bytes);
  if (S) device->ops->upload(device, state, step->state, S);
  device_shared_upload(device, &block);
  pages_write(pages, to, &steps, 1);
  pages_write_starts(pages, begins, previous, state, 1);
  device_finish(device);
  host_step_leave_trail(pages, shape, row, step);
  device->ops->release(device, state);
  device_unshare(device, &block);
}

#endif
