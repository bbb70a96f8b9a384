#include "learner/serve/row_batch.h"

#include <stdlib.h>

#include "common/base/check.h"

static void *alloc_rows(const struct row_batch *batch, size_t rows, size_t bytes) {
  if (!batch->device) return check_alloc(rows, bytes);
  return batch->device->ops->alloc_host(batch->device, rows * bytes);
}

static void release_rows(const struct row_batch *batch, void *rows) {
  if (!batch->device)
    free(rows);
  else
    batch->device->ops->release_host(batch->device, rows);
}

void row_batch_init(struct row_batch *batch, struct device *device, int max_rows, int max_segments,
                    size_t row_stride) {
  size_t rows = (size_t)max_rows;
  batch->device = device;
  batch->observation = alloc_rows(batch, rows, row_stride);
  batch->reward = alloc_rows(batch, rows, sizeof(float));
  batch->flags = alloc_rows(batch, rows, 1);
  batch->segment = check_alloc((size_t)max_segments, sizeof(*batch->segment));
}

void row_batch_deinit(struct row_batch *batch) {
  release_rows(batch, batch->observation);
  release_rows(batch, batch->reward);
  release_rows(batch, batch->flags);
  free(batch->segment);
}

void row_batch_clear(struct row_batch *batch, int first_free_row) {
  batch->num_segments = batch->uncommitted = batch->queued_rows = batch->live_rows =
      batch->guest_rows = 0;
  batch->num_rows = 0;
  batch->next_eval_row = first_free_row;
  batch->oldest_us = INT64_MAX;
  batch->running = false;
}

void row_batch_commit(struct row_batch *batch, int segment) {
  struct batch_segment *s = &batch->segment[segment];
  s->committed = true;
  batch->uncommitted--;
  batch->queued_rows += s->num_rows;
  if (!s->live) batch->guest_rows += s->num_rows;
  if (s->live && !s->dead) batch->live_rows += s->num_rows;
}

void row_batch_kill(struct row_batch *batch, int client) {
  for (int i = 0; i < batch->num_segments; i++) {
    struct batch_segment *s = &batch->segment[i];
    if (s->client != client || s->dead) continue;
    s->dead = true;
    if (s->live && s->committed) batch->live_rows -= s->num_rows;
  }
}

static int compare_segments(const void *a, const void *b) {
  const struct batch_segment *x = a, *y = b;
  return x->first_row - y->first_row;
}

void row_batch_sort(struct row_batch *batch) {
  qsort(batch->segment, (size_t)batch->num_segments, sizeof(*batch->segment), compare_segments);
}
