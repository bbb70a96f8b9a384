/* What the tests of q_loss share: a batch of windows on the host, and its results. */
#ifndef ACORN_TESTS_UNIT_LEARNER_DEVICE_Q_TESTING_H
#define ACORN_TESTS_UNIT_LEARNER_DEVICE_Q_TESTING_H

#include "common/base/step.h"
#include "tests/unit/learner/device/device_testing.h"

/* Shapes as in struct device_q_loss, whose sizes and settings `loss` has; q_upload sets its
 * pointers. Owner: q_batch_free. */
struct q_batch {
  struct device_q_loss loss;
  float *online, *target, *reward, *weight;
  int32_t *action;
  uint8_t *flags;
};

/* On the host. */
struct q_results {
  float *dhead, *td, *priority, sums[Q_SUMS];
};

/* On a device. */
struct q_outputs {
  real *dhead, *td, *sums;
  float *priority;
};

static inline size_t q_steps(const struct device_q_loss *loss) {
  return (size_t)loss->T * (size_t)loss->N;
}

static inline size_t q_rows(const struct device_q_loss *loss) {
  return q_steps(loss) + (size_t)loss->N;
}

static inline int q_outputs_size(const struct device_action_values *values) {
  return (values->A + values->dueling) * values->Z;
}

/* Zeros everywhere, and no weights. */
static inline struct q_batch q_batch_make(struct device_q_loss loss) {
  size_t rows = q_rows(&loss), numbers = rows * (size_t)loss.stride;
  return (struct q_batch){.loss = loss,
                          .online = check_alloc(numbers, sizeof(float)),
                          .target = check_alloc(numbers, sizeof(float)),
                          .reward = check_alloc(rows, sizeof(float)),
                          .action = check_alloc(rows, sizeof(int32_t)),
                          .flags = check_alloc(rows, 1)};
}

static inline void q_batch_free(struct q_batch *batch) {
  free(batch->online);
  free(batch->target);
  free(batch->reward);
  free(batch->weight);
  free(batch->action);
  free(batch->flags);
}

/* Sets the pointers of `loss` to what is uploaded, and makes room for what the operation writes. */
static inline struct q_outputs q_upload(struct testing *t, struct device_q_loss *loss,
                                        const struct q_batch *batch) {
  *loss = batch->loss;
  size_t rows = q_rows(loss), steps = q_steps(loss), stride = (size_t)loss->stride,
         N = (size_t)loss->N;
  loss->online = testing_upload(t, batch->online, rows * stride);
  loss->target = testing_upload(t, batch->target, rows * stride);
  loss->reward = testing_bytes(t, batch->reward, rows * sizeof(float));
  loss->action = testing_bytes(t, batch->action, rows * sizeof(int32_t));
  loss->flags = testing_bytes(t, batch->flags, rows);
  if (batch->weight) loss->weight = testing_bytes(t, batch->weight, N * sizeof(float));
  return (struct q_outputs){.dhead = testing_room(t, steps * stride),
                            .td = testing_room(t, steps),
                            .sums = testing_room(t, Q_SUMS),
                            .priority = testing_bytes_room(t, N * sizeof(float))};
}

/* With outputs that are NaN before. Owner: the caller, with q_results_free. */
static inline struct q_results q_run(struct testing *t, const struct q_batch *batch) {
  struct device_q_loss loss;
  struct q_outputs out = q_upload(t, &loss, batch);
  const struct device_ops *ops = t->device->ops;
  size_t steps = q_steps(&loss), numbers = steps * (size_t)loss.stride;
  struct q_results results = {.dhead = check_alloc(numbers, sizeof(float)),
                              .td = check_alloc(steps, sizeof(float))};
  ops->fill(t->device, out.dhead, NAN, numbers);
  ops->fill(t->device, out.td, NAN, steps);
  ops->fill(t->device, out.sums, NAN, Q_SUMS);
  ops->q_loss(t->device, out.dhead, out.td, out.priority, out.sums, &loss);
  ops->download(t->device, results.dhead, out.dhead, numbers);
  ops->download(t->device, results.td, out.td, steps);
  ops->download(t->device, results.sums, out.sums, Q_SUMS);
  results.priority = testing_bytes_back(t, out.priority, (size_t)loss.N * sizeof(float));
  testing_release(t);
  return results;
}

static inline void q_results_free(struct q_results *results) {
  free(results->dhead);
  free(results->td);
  free(results->priority);
}

static inline void q_close(const char *what, struct testing *t, float got, double expected,
                           double tolerance) {
  if (!(fabs((double)got - expected) <= tolerance * (1 + fabs(expected))))
    fail_msg("%s, %s: %.9g, not %.9g", device_describe(t->device), what, (double)got, expected);
}

/* ---- random batches */

/* Flags of one window that keep the rules of common/base/step.h, and the reward 0 of a first row
 * that follows a truncated one. */
static inline void q_random_window(uint64_t *random, struct q_batch *batch, int n) {
  static const uint8_t first_row[] = {0, STEP_FIRST, STEP_FIRST | STEP_TERMINATED, STEP_TRUNCATED};
  int before = 0;
  for (int t = 0; t <= batch->loss.T; t++) {
    size_t i = (size_t)t * (size_t)batch->loss.N + (size_t)n;
    int kind = testing_below(random, 100);
    batch->flags[i] = kind < 15 ? STEP_FIRST | STEP_TERMINATED : kind < 30 ? STEP_TRUNCATED : 0;
    if (t == 0) batch->flags[i] = first_row[testing_below(random, 4)];
    if (before & STEP_TRUNCATED) {
      batch->flags[i] = STEP_FIRST;
      batch->reward[i] = 0;
    }
    before = batch->flags[i];
  }
}

/* Random settings, heads, actions, rewards, flags and weights. Z 1, or 2 and more, up to max_Z. */
static inline struct q_batch q_random_batch(uint64_t *random, int max_T, int max_N, int max_Z) {
  struct device_q_loss loss = {
      .T = 1 + testing_below(random, max_T),
      .N = 1 + testing_below(random, max_N),
      .n_steps = 1 + testing_below(random, 7),
      .values = {.A = 1 + testing_below(random, 20),
                 .Z = max_Z == 1 ? 1 : 2 + testing_below(random, max_Z - 1),
                 .dueling = testing_below(random, 2),
                 .low = -4,
                 .high = 3},
      .reduction = testing_below(random, 2) ? LOSS_MEAN : LOSS_SUM_OVER_TIME,
      .double_q = testing_below(random, 2),
      .discount = 0.9f + 0.1f * testing_uniform(random),
      .reward_scale = testing_below(random, 2) ? 1 : 0.6f,
      .reward_clip = testing_below(random, 2) ? 0 : 1.5f,
      .rescaling = max_Z == 1 && testing_below(random, 2) ? 1e-3f : 0,
      .huber = max_Z == 1 && testing_below(random, 2) ? 0.75f : 0,
      .eta = testing_uniform(random)};
  loss.counted = testing_below(random, 2) ? loss.T : testing_below(random, loss.T + 1);
  loss.stride = q_outputs_size(&loss.values) + testing_below(random, 3);
  size_t rows = q_rows(&loss), numbers = rows * (size_t)loss.stride;
  struct q_batch batch = {.loss = loss,
                          .online = testing_floats(random, numbers, 3),
                          .target = testing_floats(random, numbers, 3),
                          .reward = testing_floats(random, rows, 3),
                          .action = check_alloc(rows, sizeof(int32_t)),
                          .flags = check_alloc(rows, 1)};
  if (testing_below(random, 2)) batch.weight = testing_floats(random, (size_t)loss.N, 1);
  for (size_t i = 0; i < rows; i++) batch.action[i] = testing_below(random, loss.values.A + 2) - 1;
  for (int n = 0; n < loss.N; n++) q_random_window(random, &batch, n);
  return batch;
}

#endif
