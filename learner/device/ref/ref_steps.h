/* The reference device's copies of rows and steps: bytes, the same for float and double. Part of
 * ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_STEPS_H
#define ACORN_LEARNER_DEVICE_REF_REF_STEPS_H

#include "learner/device/ref/ref.h"

static void ref_gather_rows(struct device *d, void *y, const void *x, const int32_t *row, int B,
                            size_t bytes) {
  (void)d;
  for (int b = 0; b < B; b++)
    if (row[b] >= 0)
      memcpy((uint8_t *)y + (size_t)b * bytes, (const uint8_t *)x + (size_t)row[b] * bytes, bytes);
}

static void ref_scatter_rows(struct device *d, void *y, const void *x, const int32_t *row, int B,
                             size_t bytes) {
  (void)d;
  for (int b = 0; b < B; b++)
    if (row[b] >= 0)
      memcpy((uint8_t *)y + (size_t)row[b] * bytes, (const uint8_t *)x + (size_t)b * bytes, bytes);
}

/* Element i of an array of elements of so many bytes. */
static uint8_t *item(void *array, int64_t i, size_t bytes) {
  return (uint8_t *)array + i * (int64_t)bytes;
}

static void ref_scatter_steps(struct device *d, const struct device_pool *pool, const int32_t *row,
                              const struct device_steps *steps, int B) {
  (void)d;
  size_t statistics = (size_t)pool->statistics * sizeof(float), action = (size_t)pool->action_bytes;
  for (int b = 0; b < B; b++) {
    if (row[b] < 0) continue;
    uint8_t *record = item(pool->record, row[b], pool->record_bytes);
    memset(record, 0, pool->record_bytes);
    memcpy(record, &steps->reward[b], sizeof(float));
    record[DEVICE_RECORD_FLAGS] = steps->flags[b];
    memcpy(record + DEVICE_RECORD_STATISTICS, item(steps->statistics, b, statistics), statistics);
    memcpy(record + DEVICE_RECORD_STATISTICS + statistics, item(steps->action, b, action), action);
    memcpy(item(pool->observation, row[b], pool->row_stride),
           item(steps->observation, b, pool->row_stride), pool->row_stride);
  }
}

/* Step `to` of the batch from a row of the pool. Returns its action. */
static const uint8_t *gather_step(const struct device_steps *steps, int64_t to,
                                  const struct device_pool *pool, int64_t from,
                                  const uint8_t *previous) {
  size_t statistics = (size_t)pool->statistics * sizeof(float), action = (size_t)pool->action_bytes;
  const uint8_t *record = item(pool->record, from, pool->record_bytes);
  const uint8_t *own = record + DEVICE_RECORD_STATISTICS + statistics;
  memcpy(&steps->reward[to], record, sizeof(float));
  steps->flags[to] = record[DEVICE_RECORD_FLAGS];
  memcpy(item(steps->statistics, to, statistics), record + DEVICE_RECORD_STATISTICS, statistics);
  memcpy(item(steps->previous_action, to, action), previous, action);
  if (steps->flags[to] & STEP_FIRST)
    memset(item(steps->previous_action, to, action), pool->no_action, action);
  memcpy(item(steps->action, to, action), own, action);
  memcpy(item(steps->observation, to, pool->row_stride),
         item(pool->observation, from, pool->row_stride), pool->row_stride);
  return own;
}

static void gather_window(const struct device_steps *steps, int N, int column,
                          const struct device_pool *pool, const struct device_unroll *unroll) {
  const uint8_t *previous = unroll->previous_action;
  int64_t to = column;
  for (int s = 0; s < unroll->num_spans; s++)
    for (int i = 0; i < unroll->span[s].count; i++, to += N)
      previous = gather_step(steps, to, pool, unroll->span[s].row + i, previous);
  for (int64_t k = 0; k < unroll->depth; k++)
    memcpy(item(steps->observation, column - (k + 1) * N, pool->row_stride),
           item(pool->observation, unroll->before[k], pool->row_stride), pool->row_stride);
}

static void ref_gather_steps(struct device *d, const struct device_steps *steps, int N, int column,
                             const struct device_pool *pool, const struct device_unroll *unroll,
                             int count, int length, int footprint) {
  (void)d, (void)length, (void)footprint;
  for (int k = 0; k < count; k++) gather_window(steps, N, column + k, pool, &unroll[k]);
}

#endif
