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

int32_t gather_steps(struct train_batch *batch, const struct pages_rows *rows, int column, int t,
                     size_t row, int count, int32_t previous) {
  size_t N = (size_t)batch->N, to = (size_t)t * N + (size_t)column, bytes = batch->row_stride;
  copy_observations(batch->observation + to * bytes, N * bytes, rows->observation + row * bytes,
                    bytes, count);
  int32_t *restrict action = batch->action + to, *restrict before = batch->previous_action + to;
  float *restrict behaviour = batch->behaviour + to, *restrict reward = batch->reward + to;
  uint8_t *restrict flags = batch->flags + to;
  int64_t *restrict version = batch->version + to;
  const struct pages_step *step = rows->step + row;
  for (size_t i = 0; i < (size_t)count; i++) {
    before[i * N] = step[i].flags & STEP_FIRST ? -1 : previous;
    previous = step[i].action;
    action[i * N] = previous;
    behaviour[i * N] = step[i].behaviour;
    reward[i * N] = step[i].reward;
    flags[i * N] = step[i].flags;
    version[i * N] = step[i].version;
  }
  return previous;
}

void gather_footprint(struct train_batch *batch, const struct pages_rows *rows, int column,
                      size_t last_row, int depth) {
  size_t bytes = batch->row_stride, N = (size_t)batch->N;
  batch->depth[column] = depth;
  for (int k = 0; k < depth; k++)
    memcpy(batch->older + ((size_t)k * N + (size_t)column) * bytes,
           rows->observation + (last_row - (size_t)k) * bytes, bytes);
}
