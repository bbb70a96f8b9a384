#include "learner/experience/gather.h"

#include <string.h>

#include "common/rpc/wire.h"

/* `count` rows of `bytes` each, packed, to places `stride` bytes apart. A small size known to the
 * compiler is a few moves. */
static void copy_observations(uint8_t *restrict to, size_t stride, const uint8_t *restrict from,
                              size_t bytes, int count) {
  if (bytes == 16) {
    for (int i = 0; i < count; i++, to += stride, from += 16) memcpy(to, from, 16);
  } else if (bytes == 32) {
    for (int i = 0; i < count; i++, to += stride, from += 32) memcpy(to, from, 32);
  } else {
    for (int i = 0; i < count; i++, to += stride, from += bytes) memcpy(to, from, bytes);
  }
}

/* `count` records from `from` on, packed, to places of the batch from row `to` on, one for each of
 * its time steps. Returns the last action. */
static inline __attribute__((always_inline)) const void *copy_records(
    struct train_batch *batch, size_t to, const uint8_t *from, int count, const void *previous,
    const size_t action_bytes, const size_t statistics_bytes) {
  const size_t N = (size_t)batch->N, step_bytes = pages_step_bytes(action_bytes, statistics_bytes);
  uint8_t *restrict action = (uint8_t *)batch->action + to * action_bytes;
  uint8_t *restrict before = (uint8_t *)batch->previous_action + to * action_bytes;
  uint8_t *restrict statistics = (uint8_t *)batch->statistics + to * statistics_bytes;
  float *restrict reward = batch->reward + to;
  uint8_t *restrict flags = batch->flags + to;
  int64_t *restrict version = batch->version + to;
  const void *none = step_shape_no_action(&batch->shape);
  for (size_t i = 0; i < (size_t)count; i++, from += step_bytes) {
    const struct pages_step *step = (const struct pages_step *)(const void *)from;
    const uint8_t *word = (const uint8_t *)step->word;
    memcpy(before + i * N * action_bytes, step->flags & STEP_FIRST ? none : previous, action_bytes);
    memcpy(action + i * N * action_bytes, word, action_bytes);
    memcpy(statistics + i * N * statistics_bytes, word + action_bytes, statistics_bytes);
    previous = word;
    reward[i * N] = step->reward;
    flags[i * N] = step->flags;
    version[i * N] = step->version;
  }
  return previous;
}

const void *gather_steps(struct train_batch *batch, const struct pages_rows *rows, int column,
                         int t, int64_t row, int count, const void *previous) {
  size_t N = (size_t)batch->N, to = (size_t)t * N + (size_t)column;
  size_t bytes = batch->shape.row_stride;
  copy_observations(batch->observation + to * bytes, N * bytes,
                    rows->observation + (size_t)row * bytes, bytes, count);
  const uint8_t *from = (const uint8_t *)pages_step_at(rows, row);
  if (rows->action_bytes == 4 && rows->statistics_bytes == 4)
    return copy_records(batch, to, from, count, previous, 4, 4);
  return copy_records(batch, to, from, count, previous, rows->action_bytes, rows->statistics_bytes);
}

void gather_footprint(struct train_batch *batch, const struct pages_rows *rows, int column,
                      size_t last_row, int depth) {
  size_t bytes = batch->shape.row_stride, N = (size_t)batch->N;
  batch->depth[column] = depth;
  for (int k = 0; k < depth; k++)
    memcpy(batch->older + ((size_t)k * N + (size_t)column) * bytes,
           rows->observation + (last_row - (size_t)k) * bytes, bytes);
}
