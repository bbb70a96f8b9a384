#include "learner/network/observation.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "learner/network/images.h"
#include "learner/network/layers.h"

/* Steps whose mean and variance the statistics are: float32 counts them exactly, and what a policy
 * meets when it has learned replaces what it met at first. */
#define MOST_STEPS (1 << 22)

/* In the order in which they are declared. */
enum { COUNT, MEAN, VARIANCE, NUM_STATISTICS };

bool network_normalizes(const struct device_inputs *inputs, int index) {
  return inputs->tensor[index].dtype == DTYPE_FLOAT32 && !images_has(inputs, index);
}

/* These tensors alone. */
static struct device_inputs vectors_of(const struct device_inputs *inputs) {
  struct device_inputs vectors = *inputs;
  vectors.num_tensors = 0;
  vectors.use_previous_action = vectors.use_reward = false;
  for (int k = 0; k < inputs->num_tensors; k++)
    if (network_normalizes(inputs, k)) vectors.tensor[vectors.num_tensors++] = inputs->tensor[k];
  return vectors;
}

/* (F) of the flat array. */
static real *statistic(const struct network *network, const struct device *device, real *flat,
                       int which) {
  return device_at(device, flat, network->parameter[network->statistics + which].offset);
}

static const real *statistic_const(const struct network *network, const struct device *device,
                                   const real *flat, int which) {
  return device_at_const(device, flat, network->parameter[network->statistics + which].offset);
}

/* ---- create */

void observation_declare(struct network *network) {
  struct device_inputs vectors = vectors_of(&network->config.inputs);
  int F = network->normalised = device_inputs_size(&vectors);
  if (F == 0) return;
  network->statistics = network_declare(network, "observation/count", 1, F, 1);
  network_declare(network, "observation/mean", 1, F, 1);
  network_declare(network, "observation/variance", 1, F, 1);
}

void observation_init(const struct network *network, float *host) {
  static const float before[NUM_STATISTICS] = {[VARIANCE] = 1};
  for (int which = 0; which < NUM_STATISTICS; which++)
    for (int i = 0; i < network->normalised; i++)
      host[network->parameter[network->statistics + which].offset + (size_t)i] = before[which];
}

size_t network_observation_statistics(const struct network *network, size_t *offset) {
  *offset = network->normalised ? network->parameter[network->statistics].offset : 0;
  return NUM_STATISTICS * (size_t)network->normalised;
}

void observation_allocate(struct network_workspace *workspace) {
  workspace->vectors = workspace_reals(workspace, workspace->network->normalised);
}

/* ---- forward, backward */

/* `count` numbers of each row: from number `from` of its vectors to column `column` of y (B, I). */
static void normalize(struct network_workspace *workspace, real *y, int I, int column,
                      const real *params, int from, int count, int B) {
  const struct network *network = workspace->network;
  struct device *device = workspace->device;
  size_t at = (size_t)from;
  int limit = network->config.observation_limit;
  if (limit == 0) limit = NETWORK_OBSERVATION_LIMIT;
  const real *mean = statistic_const(network, device, params, MEAN),
             *variance = statistic_const(network, device, params, VARIANCE);
  const struct normalize_rule rule = {
      .run = {.rows = (size_t)B * (size_t)count, .columns = count},
      .number = {.x = device_at_const(device, workspace->vectors, at),
                 .stride = network->normalised},
      .mean = {.x = device_at_const(device, mean, at), .stride = 0},
      .variance = {.x = device_at_const(device, variance, at), .stride = 0},
      .normalized = {.x = device_at(device, y, (size_t)column), .stride = I},
      .limit = (float)limit};
  device->ops->run_rule(device, RULE_normalize, &rule.run);
}

void observation_normalize(struct network_workspace *workspace, real *y, const real *params,
                           const struct device_inputs *inputs, int B) {
  const struct device_inputs vectors = vectors_of(inputs);
  workspace->device->ops->embed(workspace->device, workspace->vectors, &vectors, B);
  for (int k = 0, column = 0, from = 0; k < inputs->num_tensors; k++) {
    int count = inputs->tensor[k].count;
    if (network_normalizes(inputs, k)) {
      normalize(workspace, y, device_inputs_size(inputs), column, params, from, count, B);
      from += count;
    }
    column += count;
  }
}

void observation_backward(struct network_workspace *workspace, real *grads) {
  const struct network *network = workspace->network;
  device_fill(workspace->device, statistic(network, workspace->device, grads, COUNT), 0,
              NUM_STATISTICS * (size_t)network->normalised);
}

/* ---- what training has seen */

struct network_observer {
  const struct network *network;
  struct device *device;
  int rows;
  real *vectors; /* (rows, F) */
  real *seen;    /* (2F + 1) of these: means, squared distances from them; whether to skip them */
  real *all;     /* (learners, 2F + 1) what each has in `seen`; NULL: there is one learner */
};

static size_t numbers_seen(const struct network_observer *observer) {
  return 2 * (size_t)observer->network->normalised + 1;
}

struct network_observer *network_observer_create(const struct network *network,
                                                 struct device *device, int rows) {
  if (network->normalised == 0) return NULL;
  size_t F = (size_t)network->normalised, real_bytes = device->ops->real_bytes;
  struct network_observer *observer = check_alloc(1, sizeof(*observer));
  *observer = (struct network_observer){
      .network = network,
      .device = device,
      .rows = rows,
      .vectors = device->ops->alloc(device, (size_t)rows * F * real_bytes),
      .seen = device->ops->alloc(device, (2 * F + 1) * real_bytes)};
  size_t learners = device->peers ? (size_t)device->peers->learners : 0;
  if (learners) observer->all = device->ops->alloc(device, learners * (2 * F + 1) * real_bytes);
  return observer;
}

void network_observer_destroy(struct network_observer *observer) {
  if (!observer) return;
  const struct device_ops *ops = observer->device->ops;
  ops->release(observer->device, observer->vectors);
  ops->release(observer->device, observer->seen);
  if (observer->all) ops->release(observer->device, observer->all);
  free(observer);
}

static void see(struct network_observer *observer, const struct device_inputs *inputs) {
  struct device *device = observer->device;
  const struct device_inputs vectors = vectors_of(inputs);
  int F = observer->network->normalised;
  device->ops->embed(device, observer->vectors, &vectors, observer->rows);
  const struct moments_rule moments = {
      .run = {.rows = (size_t)F, .A = observer->rows, .columns = F},
      .numbers = {.x = observer->vectors, .stride = 1},
      .mean = observer->seen,
      .squares = device_at(device, observer->seen, (size_t)F)};
  device->ops->run_rule(device, RULE_moments, &moments.run);
}

/* What a learner has seen. */
static void merge(struct network_observer *observer, real *params, const real *seen,
                  const real *skipped) {
  struct device *device = observer->device;
  size_t F = (size_t)observer->network->normalised;
  real *count = statistic(observer->network, device, params, COUNT),
       *mean = statistic(observer->network, device, params, MEAN),
       *variance = statistic(observer->network, device, params, VARIANCE);
  const struct merge_moments_rule rule = {.run = {.rows = F},
                                          .count = count,
                                          .mean = mean,
                                          .variance = variance,
                                          .batch_mean = seen,
                                          .batch_squares = device_at_const(device, seen, F),
                                          .skipped = skipped,
                                          .new_count = count,
                                          .new_mean = mean,
                                          .new_variance = variance,
                                          .rows = (float)observer->rows,
                                          .most = MOST_STEPS};
  device->ops->run_rule(device, RULE_merge_moments, &rule.run);
}

/* Each learner's numbers in a place of their own, among zeros of the others: the sum has all. */
static void merge_all(struct network_observer *observer, real *params, const real *skipped,
                      bool has_seen) {
  struct device *device = observer->device;
  size_t n = numbers_seen(observer), learners = (size_t)device->peers->learners;
  real *mine = device_at(device, observer->all, (size_t)device->peers->rank * n);
  real *skips = device_at(device, observer->seen, n - 1);
  if (!has_seen) device_fill(device, observer->seen, 0, n);
  if (has_seen)
    device_copy(device, skips, skipped, 1);
  else
    device_fill(device, skips, NAN, 1);
  device_fill(device, observer->all, 0, learners * n);
  device_copy(device, mine, observer->seen, n);
  device_add_up(device, observer->all, learners * n);
  for (size_t r = 0; r < learners; r++) {
    const real *seen = device_at_const(device, observer->all, r * n);
    merge(observer, params, seen, device_at_const(device, seen, n - 1));
  }
}

void network_observe(struct network_observer *observer, real *params, const real *skipped,
                     const struct device_inputs *inputs) {
  if (inputs) see(observer, inputs);
  if (observer->all)
    merge_all(observer, params, skipped, inputs);
  else
    merge(observer, params, observer->seen, skipped);
}
