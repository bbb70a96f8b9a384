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

const void *gather_steps(struct train_batch *batch, const struct pages_rows *rows, int column,
                         int t, int64_t row, int count, const void *previous) {
  size_t N = (size_t)batch->N, to = (size_t)t * N + (size_t)column;
  size_t bytes = batch->shape.row_stride;
  copy_observations(batch->observation + to * bytes, N * bytes,
                    rows->observation + (size_t)row * bytes, bytes, count);
  const size_t action_bytes = rows->action_bytes, statistics_bytes = rows->statistics_bytes;
  uint8_t *restrict action = (uint8_t *)batch->action + to * action_bytes;
  uint8_t *restrict before = (uint8_t *)batch->previous_action + to * action_bytes;
  uint8_t *restrict statistics = (uint8_t *)batch->statistics + to * statistics_bytes;
  float *restrict reward = batch->reward + to;
  uint8_t *restrict flags = batch->flags + to;
  int64_t *restrict version = batch->version + to;
  const void *none = step_shape_no_action(&batch->shape);
  for (size_t i = 0; i < (size_t)count; i++) {
    const struct pages_step *step = pages_step_at(rows, row + (int64_t)i);
    const uint8_t *word = (const uint8_t *)step->word;
    step_shape_copy(before + i * N * action_bytes, step->flags & STEP_FIRST ? none : previous,
                    action_bytes);
    step_shape_copy(action + i * N * action_bytes, word, action_bytes);
    step_shape_copy(statistics + i * N * statistics_bytes, word + action_bytes, statistics_bytes);
    previous = word;
    reward[i * N] = step->reward;
    flags[i * N] = step->flags;
    version[i * N] = step->version;
  }
  return previous;
}

void gather_footprint(struct train_batch *batch, const struct pages_rows *rows, int column,
                      size_t last_row, int depth) {
  size_t bytes = batch->shape.row_stride, N = (size_t)batch->N;
  batch->depth[column] = depth;
  for (int k = 0; k < depth; k++)
    memcpy(batch->older + ((size_t)k * N + (size_t)column) * bytes,
           rows->observation + (last_row - (size_t)k) * bytes, bytes);
}
