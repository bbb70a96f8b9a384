/* Copies of steps: operations scatter_steps and gather_steps. `width` threads, a power of two,
 * share a step: they copy its observation, 16 bytes each at a time where rows allow it, and the
 * words of its record. */
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/wide.h"

/* ---- geometry */

struct step_grid {
  unsigned blocks;
  int width;
};

static struct step_grid grid_for(size_t steps, size_t units) {
  struct step_grid grid = {0, 4};
  while (grid.width < BLOCK && (size_t)grid.width < units) grid.width *= 2;
  size_t each = (size_t)(BLOCK / grid.width);
  grid.blocks = (unsigned)((steps + each - 1) / each);
  return grid;
}

static bool rows_are_wide(const struct device_pool *pool, const struct device_steps *steps) {
  return pool->row_stride % 16 == 0 && is_aligned(pool->observation) &&
         is_aligned(steps->observation);
}

/* Which step this thread takes part in, and its place among the threads of the step. */
DEVICE size_t step_of_thread(int width) {
  return (size_t)blockIdx.x * (blockDim.x / (unsigned)width) + threadIdx.x / (unsigned)width;
}

DEVICE int lane_of_thread(int width) {
  return (int)(threadIdx.x & (unsigned)(width - 1));
}

/* ---- bytes */

template <int V>
DEVICE void copy_row(uint8_t *__restrict__ y, const uint8_t *__restrict__ x, size_t bytes, int lane,
                     int width) {
  for (size_t i = (size_t)lane * V; i < bytes; i += (size_t)width * V)
    store_pack<uint8_t, V>(y + i, load_pack<uint8_t, V>(x + i));
}

/* ---- records */

/* A record in words: the reward, the flags, the statistics, the action. */
enum { REWARD_WORD, FLAGS_WORD, STATISTICS_WORD };

static void check_record(const struct device_pool *pool) {
  CHECK(DEVICE_RECORD_FLAGS == 4 * FLAGS_WORD && DEVICE_RECORD_STATISTICS == 4 * STATISTICS_WORD &&
            pool->record_bytes % 4 == 0 && pool->action_bytes % 4 == 0,
        "a record of %zu bytes with an action of %d", pool->record_bytes, pool->action_bytes);
}

/* ---- scatter */

/* Word `word` of the record of step b; 0 behind the action. */
DEVICE uint32_t record_word(const struct device_pool &pool, const struct device_steps &steps,
                            size_t b, int word) {
  int S = pool.statistics, action = word - STATISTICS_WORD - S, A = pool.action_bytes / 4;
  if (word == REWARD_WORD) return load_word(steps.reward, b);
  if (word == FLAGS_WORD) return steps.flags[b];
  if (action < 0)
    return load_word(steps.statistics, b * (size_t)S + (size_t)(word - STATISTICS_WORD));
  return action < A ? load_word(steps.action, b * (size_t)A + (size_t)action) : 0;
}

template <int V>
KERNEL scatter(struct device_pool pool, const int32_t *row, struct device_steps steps, int B,
               int width) {
  size_t b = step_of_thread(width);
  if (b >= (size_t)B || row[b] < 0) return;
  size_t to = (size_t)row[b];
  int lane = lane_of_thread(width), words = (int)(pool.record_bytes / 4);
  uint8_t *record = pool.record + to * pool.record_bytes;
  for (int word = lane; word < words; word += width)
    store_word(record, (size_t)word, record_word(pool, steps, b, word));
  copy_row<V>(pool.observation + to * pool.row_stride, steps.observation + b * pool.row_stride,
              pool.row_stride, lane, width);
}

void cuda_scatter_steps(struct device *d, const struct device_pool *pool, const int32_t *row,
                        const struct device_steps *steps, int B) {
  struct cuda *cuda = cuda_of(d);
  check_record(pool);
  if (B == 0) return;
  bool is_wide = rows_are_wide(pool, steps);
  struct step_grid grid = grid_for((size_t)B, pool->row_stride / (is_wide ? 16 : 1));
  if (is_wide)
    LAUNCH(scatter<16>, grid.blocks, BLOCK, cuda->stream, *pool, row, *steps, B, grid.width);
  else
    LAUNCH(scatter<1>, grid.blocks, BLOCK, cuda->stream, *pool, row, *steps, B, grid.width);
}

/* ---- gather */

/* The pool's row of a window's step. */
DEVICE size_t row_of_step(const struct device_unroll &unroll, int step) {
  int s = 0;
  while (step >= unroll.span[s].count) step -= unroll.span[s++].count;
  return (size_t)(unroll.span[s].row + step);
}

DEVICE const uint8_t *record_at(const struct device_pool &pool, size_t row) {
  return pool.record + row * pool.record_bytes;
}

/* Word k of the action before a step. */
DEVICE uint32_t previous_word(const struct device_pool &pool, const struct device_unroll &unroll,
                              int step, bool first, int k) {
  if (first) return pool.no_action * 0x01010101u;
  if (step == 0) return load_word(unroll.previous_action, (size_t)k);
  return load_word(record_at(pool, row_of_step(unroll, step - 1)),
                   (size_t)(STATISTICS_WORD + pool.statistics + k));
}

/* All of a step but its observation goes to row `to` of the batch. */
DEVICE void gather_record(const struct device_steps &steps, size_t to,
                          const struct device_pool &pool, const struct device_unroll &unroll,
                          int step, size_t from, int lane, int width) {
  const uint8_t *record = record_at(pool, from);
  int S = pool.statistics, A = pool.action_bytes / 4;
  bool first = record[DEVICE_RECORD_FLAGS] & STEP_FIRST;
  for (int word = lane; word < STATISTICS_WORD + S + A; word += width) {
    uint32_t value = load_word(record, (size_t)word);
    int action = word - STATISTICS_WORD - S;
    if (word == REWARD_WORD) {
      store_word(steps.reward, to, value);
    } else if (word == FLAGS_WORD) {
      steps.flags[to] = (uint8_t)value;
    } else if (action < 0) {
      store_word(steps.statistics, to * (size_t)S + (size_t)(word - STATISTICS_WORD), value);
    } else {
      size_t at = to * (size_t)A + (size_t)action;
      store_word(steps.action, at, value);
      store_word(steps.previous_action, at, previous_word(pool, unroll, step, first, action));
    }
  }
}

/* Of each window its steps, then the observations before it. Memory bounds it: each observation is
 * read and written once. */
template <int V>
KERNEL gather(struct device_steps steps, int N, int column, struct device_pool pool,
              const struct device_unroll *unrolls, int count, int length, int footprint,
              int width) {
  size_t index = step_of_thread(width);
  int each = length + footprint, window = (int)(index / (size_t)each);
  if (window >= count) return;
  const struct device_unroll &unroll = unrolls[window];
  int step = (int)(index % (size_t)each), lane = lane_of_thread(width), before = step - length;
  if (before >= unroll.depth) return;
  size_t from = before < 0 ? row_of_step(unroll, step) : (size_t)unroll.before[before];
  int64_t to = column + window + (int64_t)N * (before < 0 ? step : -1 - before);
  if (before < 0) gather_record(steps, (size_t)to, pool, unroll, step, from, lane, width);
  copy_row<V>(steps.observation + to * (int64_t)pool.row_stride,
              pool.observation + from * pool.row_stride, pool.row_stride, lane, width);
}

void cuda_gather_steps(struct device *d, const struct device_steps *steps, int N, int column,
                       const struct device_pool *pool, const struct device_unroll *unroll,
                       int count, int length, int footprint) {
  struct cuda *cuda = cuda_of(d);
  check_record(pool);
  size_t all = (size_t)count * (size_t)(length + footprint);
  if (all == 0) return;
  bool is_wide = rows_are_wide(pool, steps);
  struct step_grid grid = grid_for(all, pool->row_stride / (is_wide ? 16 : 1));
  if (is_wide)
    LAUNCH(gather<16>, grid.blocks, BLOCK, cuda->stream, *steps, N, column, *pool, unroll, count,
           length, footprint, grid.width);
  else
    LAUNCH(gather<1>, grid.blocks, BLOCK, cuda->stream, *steps, N, column, *pool, unroll, count,
           length, footprint, grid.width);
}
