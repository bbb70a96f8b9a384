/* Copies of rows and steps: operations gather_rows, scatter_rows, scatter_steps, gather_steps. Part
 * of cpu_kernels.c. Millions of steps a second go through these, most of them of a few numbers, so
 * the common sizes are known to the compiler: a copy of 16 bytes is a move instead of a call. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_STEPS_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_STEPS_H

#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_vector.h"

INLINE void copy_bytes(void *restrict to, const void *restrict from, size_t bytes) {
  switch (bytes) {
    case 4:
      memcpy(to, from, 4);
      break;
    case 16:
      memcpy(to, from, 16);
      break;
    case 32:
      memcpy(to, from, 32);
      break;
    default:
      memcpy(to, from, bytes);
  }
}

static void gather_rows(struct device *d, void *y, const void *x, const int32_t *row, int B,
                        size_t bytes) {
  (void)d;
  for (int b = 0; b < B; b++)
    if (row[b] >= 0)
      copy_bytes((uint8_t *)y + (size_t)b * bytes, (const uint8_t *)x + (size_t)row[b] * bytes,
                 bytes);
}

static void scatter_rows(struct device *d, void *y, const void *x, const int32_t *row, int B,
                         size_t bytes) {
  (void)d;
  for (int b = 0; b < B; b++)
    if (row[b] >= 0)
      copy_bytes((uint8_t *)y + (size_t)row[b] * bytes, (const uint8_t *)x + (size_t)b * bytes,
                 bytes);
}

/* ---- into the pool. Sizes are arguments that the compiler knows where it matters. */

/* Step b as a record. */
INLINE void write_record(uint8_t *restrict record, const struct device_steps *steps, size_t b,
                         size_t statistics, size_t action) {
  uint32_t flags = steps->flags[b];
  memcpy(record, steps->reward + b, sizeof(float));
  memcpy(record + DEVICE_RECORD_FLAGS, &flags, sizeof flags);
  record += DEVICE_RECORD_STATISTICS;
  memcpy(record, (const uint8_t *)steps->statistics + b * statistics, statistics);
  memcpy(record + statistics, (const uint8_t *)steps->action + b * action, action);
}

INLINE void scatter_sized(const struct device_pool *pool, const int32_t *row,
                          const struct device_steps *steps, int B, size_t stride,
                          size_t record_bytes, size_t statistics, size_t action) {
  for (size_t b = 0; b < (size_t)B; b++) {
    if (row[b] < 0) continue;
    size_t to = (size_t)row[b];
    copy_bytes(pool->observation + to * stride, steps->observation + b * stride, stride);
    write_record(pool->record + to * record_bytes, steps, b, statistics, action);
  }
}

static void scatter_steps(struct device *d, const struct device_pool *pool, const int32_t *row,
                          const struct device_steps *steps, int B) {
  (void)d;
  size_t statistics = (size_t)pool->statistics * sizeof(float), action = (size_t)pool->action_bytes;
  if (statistics == 4 && action == 4)
    scatter_sized(pool, row, steps, B, pool->row_stride, 16, 4, 4);
  else
    scatter_sized(pool, row, steps, B, pool->row_stride, pool->record_bytes, statistics, action);
}

/* ---- out of the pool: `count` consecutive rows to every N-th of a batch */

static void gather_observations(uint8_t *restrict to, size_t to_stride,
                                const uint8_t *restrict from, ptrdiff_t from_stride, size_t bytes,
                                int count) {
  if (bytes == 16) {
    for (int i = 0; i < count; i++, to += to_stride, from += from_stride) memcpy(to, from, 16);
  } else if (bytes == 32) {
    for (int i = 0; i < count; i++, to += to_stride, from += from_stride) memcpy(to, from, 32);
  } else {
    for (int i = 0; i < count; i++, to += to_stride, from += from_stride) memcpy(to, from, bytes);
  }
}

/* Returns the last action. */
INLINE const uint8_t *gather_sized(const struct device_steps *steps, size_t N, size_t to,
                                   const uint8_t *record, int count, const uint8_t *previous,
                                   uint8_t no_action, size_t record_bytes, size_t statistics,
                                   size_t action) {
  float *restrict reward = steps->reward + to;
  uint8_t *restrict flags = steps->flags + to;
  uint8_t *restrict statistic = (uint8_t *)steps->statistics + to * statistics;
  uint8_t *restrict actions = (uint8_t *)steps->action + to * action;
  uint8_t *restrict before = (uint8_t *)steps->previous_action + to * action;
  for (size_t i = 0; i < (size_t)count; i++, record += record_bytes) {
    memcpy(reward + i * N, record, sizeof(float));
    flags[i * N] = record[DEVICE_RECORD_FLAGS];
    memcpy(statistic + i * N * statistics, record + DEVICE_RECORD_STATISTICS, statistics);
    if (record[DEVICE_RECORD_FLAGS] & STEP_FIRST)
      memset(before + i * N * action, no_action, action);
    else
      memcpy(before + i * N * action, previous, action);
    previous = record + DEVICE_RECORD_STATISTICS + statistics;
    memcpy(actions + i * N * action, previous, action);
  }
  return previous;
}

/* `count` rows from `row` on become the steps from `t` on of the column. */
static const uint8_t *gather_span(const struct device_steps *steps, int N, int column, int t,
                                  const struct device_pool *pool, int64_t row, int count,
                                  const uint8_t *previous) {
  size_t to = (size_t)t * (size_t)N + (size_t)column, stride = pool->row_stride;
  size_t statistics = (size_t)pool->statistics * sizeof(float), action = (size_t)pool->action_bytes;
  const uint8_t *record = pool->record + (size_t)row * pool->record_bytes;
  gather_observations(steps->observation + to * stride, (size_t)N * stride,
                      pool->observation + (size_t)row * stride, (ptrdiff_t)stride, stride, count);
  if (statistics == 4 && action == 4)
    return gather_sized(steps, (size_t)N, to, record, count, previous, pool->no_action, 16, 4, 4);
  return gather_sized(steps, (size_t)N, to, record, count, previous, pool->no_action,
                      pool->record_bytes, statistics, action);
}

static void gather_window(const struct device_steps *steps, int N, int column,
                          const struct device_pool *pool, const struct device_unroll *unroll) {
  const uint8_t *previous = unroll->previous_action;
  for (int s = 0, t = 0; s < unroll->num_spans; t += unroll->span[s++].count)
    previous = gather_span(steps, N, column, t, pool, unroll->span[s].row, unroll->span[s].count,
                           previous);
  size_t stride = pool->row_stride;
  for (ptrdiff_t k = 0; k < unroll->depth; k++)
    memcpy(steps->observation + (column - (k + 1) * N) * (ptrdiff_t)stride,
           pool->observation + (size_t)unroll->before[k] * stride, stride);
}

static void gather_steps(struct device *d, const struct device_steps *steps, int N, int column,
                         const struct device_pool *pool, const struct device_unroll *unroll,
                         int count, int length, int footprint) {
  (void)d, (void)length, (void)footprint;
  for (int k = 0; k < count; k++) gather_window(steps, N, column + k, pool, &unroll[k]);
}

#endif
