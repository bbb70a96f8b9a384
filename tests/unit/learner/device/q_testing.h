/* What the tests of q_loss share: a batch of windows on the host, and its results. Heads are as a
 * network's layers give them, so that what joins the outputs of a dueling one is tested too. */
#ifndef ACORN_TESTS_UNIT_LEARNER_DEVICE_Q_TESTING_H
#define ACORN_TESTS_UNIT_LEARNER_DEVICE_Q_TESTING_H

#include "common/base/step.h"
#include "learner/learn/q_loss.h"
#include "tests/unit/learner/device/device_testing.h"

enum { Q_SUM_STEPS = SUM_STEPS, Q_SUMS = num_sums_of_q_learning };

/* As q_loss_config and q_loss_batch, but for the heads (T+1, N, stride), which are as a network's
 * layers give them, and for weight: NULL counts as ones. */
struct q_case {
  int T, N, counted, n_steps;
  struct action_values values;
  enum loss_reduction reduction;
  bool double_q;
  float discount, reward_scale, reward_clip, rescaling, huber, eta;
  int stride;
  const real *online, *target;
  const int32_t *action;
  const float *reward;
  const uint8_t *flags;
  const float *weight;
};

/* Shapes as in q_case, whose sizes and settings `loss` has; q_upload sets its pointers. Owner:
 * q_batch_free. */
struct q_batch {
  struct q_case loss;
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

static inline size_t q_steps(const struct q_case *loss) {
  return (size_t)loss->T * (size_t)loss->N;
}

static inline size_t q_rows(const struct q_case *loss) {
  return q_steps(loss) + (size_t)loss->N;
}

static inline int q_outputs_size(const struct action_values *values) {
  return (values->A + values->dueling) * values->Z;
}

/* (rows, A*Z) of heads; of a dueling network joined. Owner: the caller, with release. */
static inline real *q_joined(struct device *d, const real *heads, const struct q_case *loss,
                             size_t rows) {
  int numbers = loss->values.A * loss->values.Z;
  real *y = d->ops->alloc(d, rows * (size_t)numbers * d->ops->real_bytes);
  if (loss->values.dueling)
    action_values_join(d, y, heads, loss->stride, &loss->values, rows);
  else
    d->ops->copy_rows(d, y, numbers, heads, loss->stride, (int)rows, numbers);
  return y;
}

static inline void q_apart(struct device *d, real *dhead, const real *d_joined,
                           const struct q_case *loss, size_t rows) {
  int numbers = loss->values.A * loss->values.Z;
  device_fill(d, dhead, 0, rows * (size_t)loss->stride);
  if (loss->values.dueling)
    action_values_join_backward(d, dhead, loss->stride, d_joined, &loss->values, rows);
  else
    d->ops->copy_rows(d, dhead, loss->stride, d_joined, numbers, (int)rows, numbers);
}

static inline float *q_ones(struct device *d, int N) {
  float *memory = d->ops->alloc(d, (size_t)N * sizeof(float)),
        *host = d->ops->alloc_host(d, (size_t)N * sizeof(float));
  for (int n = 0; n < N; n++) host[n] = 1;
  d->ops->upload_bytes(d, memory, host, (size_t)N * sizeof(float));
  device_finish(d);
  d->ops->release_host(d, host);
  return memory;
}

/* q_loss_run; dhead (T, N, stride). */
static inline void q_apply(struct device *d, real *dhead, real *td, float *priority, real *sums,
                           const struct q_case *loss) {
  const struct q_loss_config config = {.T = loss->T,
                                       .N = loss->N,
                                       .counted = loss->counted,
                                       .n_steps = loss->n_steps,
                                       .values = loss->values,
                                       .reduction = loss->reduction,
                                       .double_q = loss->double_q,
                                       .discount = loss->discount,
                                       .reward_scale = loss->reward_scale,
                                       .reward_clip = loss->reward_clip,
                                       .rescaling = loss->rescaling,
                                       .huber = loss->huber,
                                       .eta = loss->eta};
  size_t steps = q_steps(loss), rows = q_rows(loss);
  size_t numbers = (size_t)(loss->values.A * loss->values.Z);
  struct q_loss *self = q_loss_create(d, &config);
  real *online = q_joined(d, loss->online, loss, rows),
       *target = q_joined(d, loss->target, loss, rows),
       *gradient = d->ops->alloc(d, steps * numbers * d->ops->real_bytes);
  float *ones = q_ones(d, loss->N);
  struct device_schedule *schedule = d->ops->alloc(d, sizeof *schedule);
  q_loss_run(self, gradient, td, priority, sums,
             &(struct q_loss_batch){online, target, loss->action, loss->reward, loss->flags,
                                    loss->weight ? loss->weight : ones, schedule, NULL});
  q_apart(d, dhead, gradient, loss, steps);
  device_finish(d);
  void *all[] = {online, target, gradient, ones, schedule};
  for (int i = 0; i < 5; i++) d->ops->release(d, all[i]);
  q_loss_destroy(self);
}

/* Actions and statistics of B heads. */
static inline void q_choose(struct device *d, int32_t *action, float *statistics, const real *heads,
                            int stride, const struct action_values *values, const float *uniform,
                            const float *epsilon, int B) {
  const struct q_case shape = {.values = *values, .stride = stride};
  real *numbers = q_joined(d, heads, &shape, (size_t)B),
       *room = d->ops->alloc(d, (size_t)(B * values->A) * d->ops->real_bytes);
  action_values_choose(d, action, statistics, action_values_of(d, room, numbers, values, (size_t)B),
                       uniform, epsilon, B, values->A);
  device_finish(d);
  d->ops->release(d, numbers);
  d->ops->release(d, room);
}

/* distance (1) of the values of B heads. */
static inline void q_distance(struct device *d, real *distance, const real *head_a,
                              const real *head_b, int stride, const struct action_values *values,
                              int B) {
  const struct q_case shape = {.values = *values, .stride = stride};
  const real *heads[] = {head_a, head_b}, *value[2];
  real *numbers[2], *room[3];
  for (int i = 0; i < 3; i++)
    room[i] = d->ops->alloc(d, (size_t)(B * values->A) * d->ops->real_bytes);
  for (int i = 0; i < 2; i++) {
    numbers[i] = q_joined(d, heads[i], &shape, (size_t)B);
    value[i] = action_values_of(d, room[i], numbers[i], values, (size_t)B);
  }
  action_values_distance(d, distance, room[2], value[0], value[1], B, values->A);
  device_finish(d);
  for (int i = 0; i < 3; i++) d->ops->release(d, room[i]);
  for (int i = 0; i < 2; i++) d->ops->release(d, numbers[i]);
}

/* Zeros everywhere, and no weights. */
static inline struct q_batch q_batch_make(struct q_case loss) {
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
static inline struct q_outputs q_upload(struct testing *t, struct q_case *loss,
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
  struct q_case loss;
  struct q_outputs out = q_upload(t, &loss, batch);
  const struct device_ops *ops = t->device->ops;
  size_t steps = q_steps(&loss), numbers = steps * (size_t)loss.stride;
  struct q_results results = {.dhead = check_alloc(numbers, sizeof(float)),
                              .td = check_alloc(steps, sizeof(float))};
  device_fill(t->device, out.dhead, NAN, numbers);
  device_fill(t->device, out.td, NAN, steps);
  device_fill(t->device, out.sums, NAN, Q_SUMS);
  q_apply(t->device, out.dhead, out.td, out.priority, out.sums, &loss);
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
    fail_msg("%s, %s: %.9g, not %.9g", t->device->description, what, (double)got, expected);
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
  struct q_case loss = {.T = 1 + testing_below(random, max_T),
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
