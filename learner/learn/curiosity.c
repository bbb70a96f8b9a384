#include "learner/learn/curiosity.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/device/shared.h"
#include "learner/learn/value_targets.h"

enum { FEATURES = 64, HIDDEN = 128, LIMIT = 5, MOST_NUMBERS = 1 << 16 };

/* A predictor that knows everything leaves numbers near 0. */
#define LEAST_DEVIATION 1e-6f

enum which_network { TARGET, PREDICTOR, VALUE, NETWORKS };
static const char *const group[NETWORKS] = {"rnd_target/", "rnd_predictor/", "rnd_value/"};

/* The three networks on windows (T+1, N) of steps. Arrays are device memory. */
struct sight {
  int N;
  real *embedded;              /* ((T+1)*N, F) */
  float *observation;          /* likewise */
  struct device_inputs inputs; /* of these */
  struct network_workspace *workspace[NETWORKS];
  real *head[NETWORKS]; /* (T*N, FEATURES) of the steps from 1 on; of VALUE ((T+1)*N) of all */
  float *novelty;       /* (T+1, N); row 0 is not used */
};

struct curiosity {
  struct device *device; /* read-only after create, as is all up to `parameter` */
  const struct algorithm_options *options;
  uint64_t seed;
  struct network *network[NETWORKS];
  size_t at[NETWORKS], own; /* where the parameters of each begin among all; how many all are */
  int T, N, n, epochs, F;   /* n: windows of a pass's part, 0: all; F: numbers of an observation */
  struct network_parameter parameter[ALGORITHM_MAX_PARAMETERS];
  int num_parameters;

  /* device memory, of a batch */
  uint32_t *number, *zero; /* whose random numbers, see random_uniforms: (epochs, T, N) */
  uint8_t *none;
  float *uniform;           /* likewise: which steps the predictor learns from */
  struct sight all;         /* the batch */
  real *target, *advantage; /* (T, N) */
  struct value_targets returns;
  struct network_observer *observer;

  /* device memory, of a pass over n windows; 0: not used but for d_... */
  struct sight part;
  real *part_target;
  float *part_uniform;
  real *d_novelty, *d_value, *d_features;
};

/* ---- create */

/* The observation of an environment alone. */
static struct device_inputs observation_of(const struct device_inputs *inputs) {
  struct device_inputs observation = *inputs;
  observation.use_previous_action = observation.use_reward = false;
  return observation;
}

enum status curiosity_check(const struct network_config *network,
                            const struct algorithm_options *options, struct error *error) {
  const struct curiosity_options *own = &options->curiosity;
  if (!algorithm_is_curious(options)) return STATUS_OK;
  if (strcmp(network->network, "mlp") != 0 && strcmp(network->network, "lstm") != 0)
    return status_fail(error, STATUS_INVALID,
                       "--curiosity=rnd reads observations as vectors, --network=%s is for images: "
                       "give mlp or lstm, or --curiosity=none",
                       network->network);
  const struct device_inputs observation = observation_of(&network->inputs);
  if (device_inputs_size(&observation) > MOST_NUMBERS)
    return status_fail(error, STATUS_INVALID,
                       "--curiosity=rnd: an observation of %d numbers, there may be %d: make it "
                       "smaller, or give --curiosity=none",
                       device_inputs_size(&observation), MOST_NUMBERS);
  if (own->intrinsic_weight == 0 && own->extrinsic_weight == 0)
    return status_fail(error, STATUS_INVALID,
                       "--intrinsic_weight=0 and --extrinsic_weight=0: no reward is left to learn "
                       "from, give at least one above 0");
  return STATUS_OK;
}

/* Of F normalised numbers: FEATURES, or a value. The predictor has a layer more than what it
 * predicts. */
static struct network *make_network(const struct device_inputs *inputs, int F,
                                    enum which_network which) {
  const struct network_config config = {.network = "mlp",
                                        .inputs = {.row_stride = (size_t)F * sizeof(float),
                                                   .num_tensors = 1,
                                                   .tensor = {{.dtype = DTYPE_FLOAT32, .count = F}},
                                                   .discrete = inputs->discrete,
                                                   .box = inputs->box},
                                        .value_size = which == VALUE ? 1 : FEATURES,
                                        .normalize = true,
                                        .observation_limit = LIMIT,
                                        .scale_value = which == VALUE,
                                        .num_layers = which == TARGET ? 1 : 2,
                                        .hidden = {HIDDEN, HIDDEN},
                                        .activation = ACTIVATION_RELU};
  struct network *network;
  struct error error;
  CHECK(network_create(&network, &config, &error) == STATUS_OK, "%s", error.text);
  return network;
}

/* Behind the policy's, of which there are P. */
static void declare(struct curiosity *self, size_t P) {
  for (int w = 0; w < NETWORKS; w++) {
    int count;
    const struct network_parameter *parameter = network_parameters(self->network[w], &count);
    self->at[w] = P + self->own;
    for (int i = 0; i < count; i++) {
      CHECK(self->num_parameters < ALGORITHM_MAX_PARAMETERS, "more than %d parameters of rnd",
            ALGORITHM_MAX_PARAMETERS);
      struct network_parameter *own = &self->parameter[self->num_parameters++];
      *own = parameter[i];
      own->offset += self->at[w];
      int length = snprintf(own->name, sizeof(own->name), "%s%s", group[w], parameter[i].name);
      CHECK(length < NETWORK_NAME_BYTES, "name too long: %s%s", group[w], parameter[i].name);
    }
    self->own += network_num_parameters(self->network[w]);
  }
}

static void sight_init(struct curiosity *self, struct sight *sight, int N, bool backward) {
  struct device *device = self->device;
  size_t rows = (size_t)((self->T + 1) * N), numbers = rows * (size_t)self->F;
  *sight = (struct sight){.N = N,
                          .embedded = device_reals(device, numbers),
                          .observation = device->ops->alloc(device, numbers * sizeof(float)),
                          .inputs = *network_inputs(self->network[PREDICTOR]),
                          .novelty = device->ops->alloc(device, rows * sizeof(float))};
  sight->inputs.observation = (const uint8_t *)sight->observation;
  for (int w = 0; w < NETWORKS; w++)
    sight->workspace[w] = network_workspace_create(
        self->network[w], device, (self->T + (w == VALUE)) * N, backward && w != TARGET);
}

static void sight_deinit(struct curiosity *self, struct sight *sight) {
  void *arrays[] = {sight->embedded, sight->observation, sight->novelty};
  device_release_all(self->device, arrays, sizeof(arrays) / sizeof(arrays[0]));
  for (int w = 0; w < NETWORKS; w++) network_workspace_destroy(sight->workspace[w]);
}

static void make_draws(struct curiosity *self, size_t count) {
  CHECK(count <= INT_MAX, "%zu random numbers of a batch", count);
  struct device *device = self->device;
  struct device_shared numbers = device_share(device, count * sizeof(uint32_t));
  for (size_t i = 0; i < count; i++) ((uint32_t *)numbers.host)[i] = (uint32_t)i;
  self->number = device->ops->alloc(device, numbers.bytes);
  self->zero = device->ops->alloc(device, numbers.bytes);
  self->none = device->ops->alloc(device, count);
  self->uniform = device->ops->alloc(device, count * sizeof(float));
  device->ops->upload_bytes(device, self->number, numbers.host, numbers.bytes);
  device_finish(device);
  device_unshare(device, &numbers);
}

static void make_arrays(struct curiosity *self) {
  struct device *device = self->device;
  size_t steps = (size_t)(self->T * self->N);
  size_t trained = (size_t)(self->T * (self->n ? self->n : self->N));
  make_draws(self, (size_t)self->epochs * steps);
  self->target = device_reals(device, steps);
  self->advantage = device_reals(device, steps);
  self->d_novelty = device_reals(device, trained);
  self->d_value = device_reals(device, trained);
  self->d_features = device_reals(device, trained * FEATURES);
  sight_init(self, &self->all, self->N, self->n == 0);
  value_targets_init(&self->returns, device, self->network[VALUE]);
  value_targets_of_batch(&self->returns, LEAST_DEVIATION);
  self->observer = network_observer_create(self->network[PREDICTOR], device, self->T, self->N);
  if (self->n == 0) return;
  sight_init(self, &self->part, self->n, true);
  self->part_target = device_reals(device, trained);
  self->part_uniform = device->ops->alloc(device, trained * sizeof(float));
}

struct curiosity *curiosity_create(const struct learning *learning, int epochs, int windows) {
  if (!algorithm_is_curious(learning->options)) return NULL;
  const struct device_inputs observation = observation_of(network_inputs(learning->network));
  struct curiosity *self = check_alloc(1, sizeof(*self));
  *self = (struct curiosity){.device = learning->device,
                             .options = learning->options,
                             .seed = learning->seed,
                             .T = (int)learning->options->unroll_length,
                             .N = learning->num_windows,
                             .n = windows,
                             .epochs = epochs > 0 ? epochs : 1,
                             .F = device_inputs_size(&observation)};
  for (enum which_network w = 0; w < NETWORKS; w++)
    self->network[w] = make_network(&observation, self->F, w);
  declare(self, network_num_parameters(learning->network));
  make_arrays(self);
  return self;
}

void curiosity_destroy(struct curiosity *self) {
  if (!self) return;
  void *arrays[] = {self->number,    self->zero,       self->none,        self->uniform,
                    self->target,    self->advantage,  self->part_target, self->part_uniform,
                    self->d_novelty, self->d_features, self->d_value};
  device_release_all(self->device, arrays, sizeof(arrays) / sizeof(arrays[0]));
  sight_deinit(self, &self->all);
  if (self->n) sight_deinit(self, &self->part);
  value_targets_deinit(&self->returns);
  network_observer_destroy(self->observer);
  for (int w = 0; w < NETWORKS; w++) network_destroy(self->network[w]);
  free(self);
}

/* ---- parameters */

size_t curiosity_num_parameters(const struct curiosity *self) {
  return self ? self->own : 0;
}

const struct network_parameter *curiosity_parameters(const void *algorithm, int *count) {
  const struct curiosity *self = *(struct curiosity *const *)algorithm;
  *count = self ? self->num_parameters : 0;
  return self ? self->parameter : NULL;
}

void curiosity_init_parameters(const void *algorithm, float *host, uint64_t seed) {
  const struct curiosity *self = *(struct curiosity *const *)algorithm;
  for (int w = 0; w < NETWORKS; w++)
    network_init_parameters(self->network[w], host + self->at[w],
                            random_bits(seed, 0, 0, (uint32_t)w, RANDOM_PARAMETERS));
}

/* ---- before an update: which steps the predictor learns from */

void curiosity_begin(void *algorithm, const struct schedule *schedule) {
  struct curiosity *self = *(struct curiosity **)algorithm;
  if (!self) return;
  uint64_t update = (uint64_t)schedule->update;
  uint64_t seed =
      random_bits(self->seed, (uint32_t)(update >> 32), (uint32_t)update, 0, RANDOM_RESAMPLE);
  const struct device_draws draws = {.count = 1,
                                     .environment = self->number,
                                     .life = self->zero,
                                     .step = self->zero,
                                     .greedy = self->none};
  self->device->ops->random_uniforms(self->device, self->uniform, seed, &draws, RANDOM_RESAMPLE,
                                     self->epochs * self->T * self->N);
}

/* ---- what is new */

static struct rule_row_in features_of(const struct sight *sight, enum which_network which) {
  return (struct rule_row_in){.x = sight->head[which], .stride = FEATURES};
}

/* The inputs from step t on. */
static struct device_inputs inputs_from(const struct curiosity *self, const struct sight *sight,
                                        int t) {
  struct device_inputs from = sight->inputs;
  from.observation =
      (const uint8_t *)(sight->observation + (size_t)t * (size_t)sight->N * (size_t)self->F);
  return from;
}

static void see(struct curiosity *self, struct sight *sight, const real *params,
                const struct device_inputs *inputs) {
  struct device *device = self->device;
  int T = self->T, N = sight->N, rows = (T + 1) * N;
  const struct device_inputs observation = observation_of(inputs);
  device->ops->embed(device, sight->embedded, &observation, rows);
  const struct as_float_rule as_float = {.run = {.rows = (size_t)rows * (size_t)self->F},
                                         .number = sight->embedded,
                                         .same = sight->observation};
  device->ops->run_rule(device, RULE_as_float, &as_float.run);
  for (int w = 0; w < NETWORKS; w++) {
    int first = w == VALUE ? 0 : 1; /* a step is as new as the observation that follows it */
    const struct device_inputs from = inputs_from(self, sight, first);
    struct network_outputs out;
    network_forward(sight->workspace[w], &out, NULL, device_at_const(device, params, self->at[w]),
                    &from, NULL, T + 1 - first, N);
    sight->head[w] = out.head;
  }
  const struct novelty_rule novelty = {.run = {.rows = (size_t)(T * N), .A = FEATURES},
                                       .features = features_of(sight, TARGET),
                                       .predicted = features_of(sight, PREDICTOR),
                                       .novelty = sight->novelty + N};
  device->ops->run_rule(device, RULE_novelty, &novelty.run);
}

void curiosity_advantages(struct curiosity *self, real *advantage, const real *params,
                          const struct train_batch *batch, const struct device_inputs *inputs,
                          const struct device_trace *trace, const real *deviation) {
  if (!self) return;
  struct device *device = self->device;
  const struct curiosity_options *own = &self->options->curiosity;
  see(self, &self->all, params, inputs);
  struct device_trace intrinsic = *trace;
  intrinsic.discount = (float)own->intrinsic_discount;
  intrinsic.endless = true;
  intrinsic.reward_scale = 1;
  intrinsic.reward_clip = 0;
  intrinsic.value = self->all.head[VALUE];
  intrinsic.reward = self->all.novelty;
  device->ops->trace(device, self->target, self->advantage, &intrinsic);
  value_targets_measure(&self->returns, device_at_const(device, params, self->at[VALUE]),
                        self->target, batch->flags, self->T, self->N);
  const struct join_advantages_rule join = {.run = {.rows = (size_t)(self->T * self->N)},
                                            .extrinsic = advantage,
                                            .intrinsic = self->advantage,
                                            .deviation = deviation,
                                            .intrinsic_deviation = self->returns.deviation,
                                            .joined = advantage,
                                            .extrinsic_weight = (float)own->extrinsic_weight,
                                            .intrinsic_weight = (float)own->intrinsic_weight};
  device->ops->run_rule(device, RULE_join_advantages, &join.run);
}

/* ---- gradient */

/* The rows of a pass's part, with the parameters as they are by now. */
static struct sight *see_part(struct curiosity *self, const real *params,
                              const struct curiosity_part *part) {
  struct device *device = self->device;
  int steps = self->T * self->n;
  const float *uniform = self->uniform + (size_t)part->epoch * (size_t)(self->T * self->N);
  see(self, &self->part, params, part->inputs);
  device->ops->gather_rows(device, self->part_target, self->target, part->row, steps,
                           device->ops->real_bytes);
  device->ops->gather_rows(device, self->part_uniform, uniform, part->row, steps, sizeof(float));
  return &self->part;
}

static void backward(struct curiosity *self, struct sight *sight, real *gradient,
                     const real *params, enum which_network which, real *d_head) {
  const struct device_inputs from = inputs_from(self, sight, which == VALUE ? 0 : 1);
  network_backward(sight->workspace[which], device_at(self->device, gradient, self->at[which]),
                   device_at_const(self->device, params, self->at[which]), d_head, &from, self->T,
                   sight->N);
}

void curiosity_gradient(struct curiosity *self, real *gradient, real *sums, const real *params,
                        const struct curiosity_part *part, const struct device_schedule *schedule) {
  if (!self) return;
  struct device *device = self->device;
  struct sight *sight = part->row ? see_part(self, params, part) : &self->all;
  size_t steps = (size_t)(self->T * sight->N);
  bool sums_over_time = algorithm_sums_over_time(self->options);
  const real *now = network_value_statistics(self->network[VALUE], device,
                                             device_at_const(device, params, self->at[VALUE]));
  const struct curiosity_rule rule = {
      .run = {.rows = steps,
              .N = sight->N,
              .reduction = sums_over_time ? LOSS_SUM_OVER_TIME : LOSS_MEAN,
              .schedule = schedule,
              .flags = part->flags,
              .sums = sums},
      .novelty = sight->novelty + sight->N,
      .uniform = part->row ? self->part_uniform : self->uniform,
      .value = sight->head[VALUE],
      .target = part->row ? self->part_target : self->target,
      .mean = device_at_const(device, now, 1),
      .deviation = device_at_const(device, now, 2),
      .next_mean = device_at_const(device, self->returns.next, 1),
      .next_deviation = self->returns.deviation,
      .d_novelty = self->d_novelty,
      .d_value = self->d_value,
      .share = (float)self->options->curiosity.predictor_share,
      .baseline_cost = (float)self->options->actor_critic.baseline_cost};
  device->ops->run_rule(device, RULE_curiosity, &rule.run);
  const struct novelty_backward_rule slope = {
      .run = {.rows = steps, .A = FEATURES},
      .features = features_of(sight, TARGET),
      .predicted = features_of(sight, PREDICTOR),
      .d_novelty = self->d_novelty,
      .d_predicted = {.x = self->d_features, .stride = FEATURES}};
  device->ops->run_rule(device, RULE_novelty_backward, &slope.run);
  device_fill(device, device_at(device, gradient, self->at[TARGET]), 0,
              network_num_parameters(self->network[TARGET]));
  backward(self, sight, gradient, params, PREDICTOR, self->d_features);
  backward(self, sight, gradient, params, VALUE, self->d_value);
}

/* ---- behind an update */

/* All three networks read what is normalised by the same statistics. */
void curiosity_settle(struct curiosity *self, const struct settled *settled) {
  if (!self) return;
  struct device *device = self->device;
  real *at[NETWORKS];
  for (int w = 0; w < NETWORKS; w++) at[w] = device_at(device, settled->online, self->at[w]);
  network_observe(self->observer, at[PREDICTOR], settled->skipped,
                  settled->inputs ? &self->all.inputs : NULL);
  size_t from, count = network_observation_statistics(self->network[PREDICTOR], &from);
  for (int w = 0; w < NETWORKS; w++) {
    size_t to;
    (void)network_observation_statistics(self->network[w], &to);
    if (w != PREDICTOR)
      device_copy(device, device_at(device, at[w], to), device_at(device, at[PREDICTOR], from),
                  count);
  }
  value_targets_adopt(&self->returns, at[VALUE], settled->skipped);
}

double curiosity_loss(const struct curiosity *self, const struct losses *losses, int first) {
  if (!self || losses->sum[LOSS_STEPS] == 0) return 0;
  const double *sum = losses->sum + first;
  double values = self->options->actor_critic.baseline_cost * sum[CURIOSITY_VALUE_LOSS];
  return (sum[CURIOSITY_PREDICTOR_LOSS] + values) / losses->sum[LOSS_STEPS];
}
