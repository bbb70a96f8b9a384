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

/* Images alone, each a tensor of one frame. */
static struct device_inputs images_of(const struct device_inputs *inputs) {
  struct device_inputs images;
  images_split(&images, NULL, inputs);
  images.use_previous_action = images.use_reward = false;
  return images;
}

static struct device_inputs part_of(const struct device_inputs *inputs, int part) {
  return part == NORMALISED_IMAGES ? images_of(inputs) : vectors_of(inputs);
}

static const struct network_parameter *parameter_of(const struct network *network, int part,
                                                    int which) {
  return &network->parameter[network->normalised[part].statistics + which];
}

/* (F) of the flat array. */
static real *statistic(const struct network *network, const struct device *device, real *flat,
                       int part, int which) {
  return device_at(device, flat, parameter_of(network, part, which)->offset);
}

static const real *statistic_const(const struct network *network, const struct device *device,
                                   const real *flat, int part, int which) {
  return device_at_const(device, flat, parameter_of(network, part, which)->offset);
}

/* ---- create */

static void declare_part(struct network *network, int part) {
  static const char *const names[NUM_NORMALISED][NUM_STATISTICS] = {
      {"observation/count", "observation/mean", "observation/variance"},
      {"image/count", "image/mean", "image/variance"}};
  const struct device_inputs inputs = part_of(&network->config.inputs, part);
  int F = device_inputs_size(&inputs);
  if (F == 0) return;
  int count = network_declare(network, names[part][COUNT], 1, F, 1);
  network->normalised[part] = (struct normalised){.numbers = F, .statistics = count};
  for (int which = MEAN; which < NUM_STATISTICS; which++)
    network_declare(network, names[part][which], 1, F, 1);
}

void observation_declare(struct network *network) {
  if (network->config.normalize) declare_part(network, NORMALISED_VECTORS);
  if (network->config.normalize_images && network->kind->embeds)
    declare_part(network, NORMALISED_IMAGES);
}

void observation_init(const struct network *network, float *host) {
  static const float before[NUM_STATISTICS] = {[VARIANCE] = 1};
  for (int part = 0; part < NUM_NORMALISED; part++)
    for (int i = 0; i < network->normalised[part].numbers; i++)
      for (int which = 0; which < NUM_STATISTICS; which++)
        host[parameter_of(network, part, which)->offset + (size_t)i] = before[which];
}

size_t network_observation_statistics(const struct network *network, size_t *offset) {
  int F = network->normalised[NORMALISED_VECTORS].numbers;
  *offset = F ? parameter_of(network, NORMALISED_VECTORS, COUNT)->offset : 0;
  return NUM_STATISTICS * (size_t)F;
}

void observation_allocate(struct network_workspace *workspace) {
  const struct normalised *normalised = workspace->network->normalised;
  if (normalised[NORMALISED_VECTORS].numbers)
    workspace->vectors = workspace_reals(workspace, normalised[NORMALISED_VECTORS].numbers);
  int F = normalised[NORMALISED_IMAGES].numbers;
  if (F == 0) return;
  workspace->deviations =
      workspace_memory(workspace, (size_t)F * workspace->device->ops->real_bytes);
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
  const real *mean = statistic_const(network, device, params, NORMALISED_VECTORS, MEAN);
  const real *variance = statistic_const(network, device, params, NORMALISED_VECTORS, VARIANCE);
  const struct normalize_rule rule = {
      .run = {.rows = (size_t)B * (size_t)count, .columns = count},
      .number = {.x = device_at_const(device, workspace->vectors, at),
                 .stride = network->normalised[NORMALISED_VECTORS].numbers},
      .mean = {.x = device_at_const(device, mean, at), .stride = 0},
      .variance = {.x = device_at_const(device, variance, at), .stride = 0},
      .normalized = {.x = device_at(device, y, (size_t)column), .stride = I},
      .limit = (float)limit};
  device->ops->run_rule(device, RULE_normalize, &rule.run);
}

void observation_normalize(struct network_workspace *workspace, real *y, const real *params,
                           const struct device_inputs *inputs, int B) {
  if (workspace->network->normalised[NORMALISED_VECTORS].numbers == 0) return;
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

void observation_normalize_images(struct network_workspace *workspace, struct device_inputs *images,
                                  const real *params) {
  const struct network *network = workspace->network;
  struct device *device = workspace->device;
  int F = network->normalised[NORMALISED_IMAGES].numbers;
  if (F == 0) return;
  const struct deviation_at_rule rule = {
      .run = {.rows = (size_t)F},
      .variance = statistic_const(network, device, params, NORMALISED_IMAGES, VARIANCE),
      .deviation = workspace->deviations};
  device->ops->run_rule(device, RULE_deviation_at, &rule.run);
  images->mean = statistic_const(network, device, params, NORMALISED_IMAGES, MEAN);
  images->deviation = workspace->deviations;
  images->limit = NETWORK_IMAGE_LIMIT;
}

void observation_backward(struct network_workspace *workspace, real *grads) {
  const struct network *network = workspace->network;
  for (int part = 0; part < NUM_NORMALISED; part++)
    if (network->normalised[part].numbers)
      device_fill(workspace->device, statistic(network, workspace->device, grads, part, COUNT), 0,
                  NUM_STATISTICS * (size_t)network->normalised[part].numbers);
}

/* ---- what training has seen */

/* Of the vectors or the images. */
struct seen {
  int F, rows;   /* F: 0: none are normalised */
  int stride;    /* every so many rows of a batch are seen */
  real *numbers; /* (rows, F) */
  real *of_rows; /* (2F + 1) of these: means, squared distances from them; whether to skip them */
  real *all;     /* (learners, 2F + 1) what each has in `of_rows`; NULL: there is one learner */
};

struct network_observer {
  const struct network *network;
  struct device *device;
  struct seen seen[NUM_NORMALISED];
};

static size_t numbers_of_rows(const struct seen *seen) {
  return 2 * (size_t)seen->F + 1;
}

static int common_divisor(int a, int b) {
  return b ? common_divisor(b, a % b) : a;
}

/* At most `most` of the rows of a batch. The stride goes round all its windows, and, being odd, all
 * their steps, of which there often are powers of two. */
static struct seen seen_of(const struct network *network, int part, int T, int N) {
  int rows = T * N, most = part == NORMALISED_IMAGES ? NETWORK_IMAGES_SEEN : rows;
  int stride = (rows + most - 1) / most | 1;
  while (common_divisor(stride, N) > 1) stride += 2;
  return (struct seen){.F = network->normalised[part].numbers,
                       .rows = (rows + stride - 1) / stride,
                       .stride = stride};
}

size_t network_observer_bytes(const struct network *network, const struct device *device, int T,
                              int N) {
  size_t reals = 0;
  for (int part = 0; part < NUM_NORMALISED; part++) {
    const struct seen seen = seen_of(network, part, T, N);
    if (seen.F) reals += (size_t)seen.rows * (size_t)seen.F + numbers_of_rows(&seen);
  }
  return reals * device->ops->real_bytes;
}

static void allocate_seen(struct seen *seen, struct device *device) {
  if (seen->F == 0) return;
  size_t learners = device->peers ? (size_t)device->peers->learners : 0;
  seen->numbers = device_reals(device, (size_t)seen->rows * (size_t)seen->F);
  seen->of_rows = device_reals(device, numbers_of_rows(seen));
  if (learners) seen->all = device_reals(device, learners * numbers_of_rows(seen));
}

struct network_observer *network_observer_create(const struct network *network,
                                                 struct device *device, int T, int N) {
  if (network_observer_bytes(network, device, T, N) == 0) return NULL;
  struct network_observer *observer = check_alloc(1, sizeof(*observer));
  *observer = (struct network_observer){.network = network, .device = device};
  for (int part = 0; part < NUM_NORMALISED; part++) {
    observer->seen[part] = seen_of(network, part, T, N);
    allocate_seen(&observer->seen[part], device);
  }
  return observer;
}

void network_observer_destroy(struct network_observer *observer) {
  if (!observer) return;
  const struct device_ops *ops = observer->device->ops;
  for (int part = 0; part < NUM_NORMALISED; part++) {
    const struct seen *seen = &observer->seen[part];
    if (seen->numbers) ops->release(observer->device, seen->numbers);
    if (seen->of_rows) ops->release(observer->device, seen->of_rows);
    if (seen->all) ops->release(observer->device, seen->all);
  }
  free(observer);
}

static void see(struct device *device, const struct seen *seen,
                const struct device_inputs *inputs) {
  device->ops->embed(device, seen->numbers, inputs, seen->rows);
  const struct moments_rule moments = {
      .run = {.rows = (size_t)seen->F, .A = seen->rows, .columns = seen->F},
      .numbers = {.x = seen->numbers, .stride = 1},
      .mean = seen->of_rows,
      .squares = device_at(device, seen->of_rows, (size_t)seen->F)};
  device->ops->run_rule(device, RULE_moments, &moments.run);
}

/* What a learner has seen. */
static void merge(struct network_observer *observer, int part, real *params, const real *of_rows,
                  const real *skipped) {
  struct device *device = observer->device;
  const struct seen *seen = &observer->seen[part];
  size_t F = (size_t)seen->F;
  real *count = statistic(observer->network, device, params, part, COUNT),
       *mean = statistic(observer->network, device, params, part, MEAN),
       *variance = statistic(observer->network, device, params, part, VARIANCE);
  const struct merge_moments_rule rule = {.run = {.rows = F},
                                          .count = count,
                                          .mean = mean,
                                          .variance = variance,
                                          .batch_mean = of_rows,
                                          .batch_squares = device_at_const(device, of_rows, F),
                                          .skipped = skipped,
                                          .new_count = count,
                                          .new_mean = mean,
                                          .new_variance = variance,
                                          .rows = (float)seen->rows,
                                          .most = MOST_STEPS};
  device->ops->run_rule(device, RULE_merge_moments, &rule.run);
}

/* Each learner's numbers in a place of their own, among zeros of the others: the sum has all. */
static void merge_all(struct network_observer *observer, int part, real *params,
                      const real *skipped, bool has_seen) {
  struct device *device = observer->device;
  const struct seen *seen = &observer->seen[part];
  size_t n = numbers_of_rows(seen), learners = (size_t)device->peers->learners;
  real *mine = device_at(device, seen->all, (size_t)device->peers->rank * n);
  real *skips = device_at(device, seen->of_rows, n - 1);
  if (!has_seen) device_fill(device, seen->of_rows, 0, n);
  if (has_seen)
    device_copy(device, skips, skipped, 1);
  else
    device_fill(device, skips, NAN, 1);
  device_fill(device, seen->all, 0, learners * n);
  device_copy(device, mine, seen->of_rows, n);
  device_add_up(device, seen->all, learners * n);
  for (size_t r = 0; r < learners; r++) {
    const real *of_rows = device_at_const(device, seen->all, r * n);
    merge(observer, part, params, of_rows, device_at_const(device, of_rows, n - 1));
  }
}

void network_observe(struct network_observer *observer, real *params, const real *skipped,
                     const struct device_inputs *inputs) {
  for (int part = 0; part < NUM_NORMALISED; part++) {
    const struct seen *seen = &observer->seen[part];
    if (seen->F == 0) continue;
    if (inputs) {
      struct device_inputs read = part_of(inputs, part);
      read.row_stride *= (size_t)seen->stride;
      see(observer->device, seen, &read);
    }
    if (seen->all)
      merge_all(observer, part, params, skipped, inputs);
    else
      merge(observer, part, params, seen->of_rows, skipped);
  }
}
