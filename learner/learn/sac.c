/* sac: soft actor-critic. Two critics learn what actions are worth, entropy included; the policy
 * moves to what the lower one of them likes, through the action itself; the temperature moves so
 * that the policy keeps the entropy that is wanted. All three take their step at once, from the
 * parameters before the update. Source: Haarnoja et al. 2018, "Soft actor-critic algorithms and
 * applications", algorithm 1 and eqs. 5, 7 and 17; the lower of two critics: Fujimoto et al. 2018.
 *
 * Parameters: the policy's network, which inference gets, then those of the critics and the
 * temperature's logarithm, which are of training alone. Targets are an average of the critics'. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/learn/algorithm.h"
#include "learner/learn/algorithms.h"

enum { CRITICS = 2 };

enum sac_term { TERM_REWARD, TERM_VALUE, TERM_TARGET, TERM_CRITIC, TERM_POLICY };

static const struct loss_term terms[] = {
    {"train/reward", "mean reward per step", "mean reward", SAC_REWARD},
    {"q/value", "mean value of the actions that were taken, by the first critic", "mean value",
     SAC_VALUE},
    {"q/target", "mean of what these values are trained towards", "mean target", SAC_TARGET},
    {"loss/q", "loss of the values, of both critics", "value loss", SAC_VALUE_LOSS},
    {"loss/policy", "temperature x log-probability, less the value of the policy's own action",
     "policy loss", SAC_POLICY_LOSS},
    {"policy/entropy", "mean entropy of the policy, in nats", "entropy", SAC_ENTROPY},
    {"policy/temperature", "what a nat of entropy is worth", "temperature", SAC_TEMPERATURE},
};

struct critic {
  size_t at;                                /* of its parameters, in all */
  struct network_workspace *taken, *chosen; /* T*N rows */
  struct network_workspace *target;         /* likewise, of the steps one later */
  struct network_observer *observer;        /* NULL: it normalises nothing */
  real *d_inputs;                           /* (T*N, I) of `chosen`: I ends with the action */
  real *d_taken, *d_chosen;                 /* (T*N) */
};

struct sac {
  struct device *device; /* read-only after create, as is all up to `parameter` */
  const struct network *network;
  const struct policy *policy;
  const struct algorithm_options *options;
  uint64_t seed;
  struct network *values; /* the critics' */
  size_t P;               /* all parameters */
  int T, N, A;
  struct network_parameter parameter[ALGORITHM_MAX_PARAMETERS];
  int num_parameters;

  /* device memory of one gradient; of (T+1)*N rows: */
  struct network_workspace *actor;
  uint32_t *number, *zero;  /* whose random numbers, see random_uniforms */
  uint8_t *none;            /* no flags */
  float *uniform;           /* A each */
  float *action, *log_prob; /* A each; 1 */
  real *ends;
  /* of T*N: */
  real *returned, *d_log_prob, *d_head;
  real *unwanted; /* gradient of a critic's parameters with respect to the policy's loss */
  struct critic critic[CRITICS];
};

/* ---- create */

/* Observation and action in, one number out. */
static struct network *make_values(const struct network *policy) {
  struct network_config config = *network_config(policy);
  config.head_size = 1;
  config.inputs.use_previous_action = true; /* the action of the step itself takes its place */
  config.inputs.use_reward = false;
  struct network *values;
  struct error error;
  enum status status = network_create(&values, &config, &error);
  CHECK(status == STATUS_OK, "%s", error.text);
  return values;
}

static void add_parameter(struct sac *self, const char *group,
                          const struct network_parameter *parameter, size_t offset) {
  CHECK(self->num_parameters < ALGORITHM_MAX_PARAMETERS, "more than %d parameters of sac's own",
        ALGORITHM_MAX_PARAMETERS);
  struct network_parameter *own = &self->parameter[self->num_parameters++];
  *own = *parameter;
  own->offset = offset;
  int length = snprintf(own->name, sizeof(own->name), "%s%s", group, parameter->name);
  CHECK(length < NETWORK_NAME_BYTES, "name too long: %s%s", group, parameter->name);
}

/* Behind the policy's. */
static void declare(struct sac *self) {
  static const char *const group[CRITICS] = {"critic_1/", "critic_2/"};
  static const struct network_parameter log_temperature = {
      .name = "log_temperature", .rank = 1, .shape = {1, 1}, .count = 1};
  self->P = network_num_parameters(self->network);
  for (int c = 0; c < CRITICS; c++) {
    int count;
    const struct network_parameter *parameter = network_parameters(self->values, &count);
    self->critic[c].at = self->P;
    for (int i = 0; i < count; i++)
      add_parameter(self, group[c], &parameter[i], self->P + parameter[i].offset);
    self->P += network_num_parameters(self->values);
  }
  add_parameter(self, "", &log_temperature, self->P++);
}

static void make_critic(struct sac *self, struct critic *critic) {
  struct device *device = self->device;
  int rows = self->T * self->N;
  critic->taken = network_workspace_create(self->values, device, rows, true);
  critic->chosen = network_workspace_create(self->values, device, rows, true);
  critic->target = network_workspace_create(self->values, device, rows, false);
  critic->observer = network_observer_create(self->values, device, self->T, self->N);
  critic->d_inputs = network_differentiate_inputs(critic->chosen);
  critic->d_taken = device_reals(device, (size_t)rows);
  critic->d_chosen = device_reals(device, (size_t)rows);
}

static void make_arrays(struct sac *self) {
  struct device *device = self->device;
  size_t steps = (size_t)(self->T * self->N), rows = steps + (size_t)self->N, A = (size_t)self->A;
  self->zero = device->ops->alloc(device, rows * sizeof(uint32_t));
  self->number = device->ops->alloc(device, rows * sizeof(uint32_t));
  self->none = device->ops->alloc(device, rows);
  self->uniform = device->ops->alloc(device, rows * A * sizeof(float));
  self->action = device->ops->alloc(device, rows * A * sizeof(float));
  self->log_prob = device->ops->alloc(device, rows * sizeof(float));
  self->ends = device_reals(device, rows);
  self->returned = device_reals(device, steps);
  self->d_log_prob = device_reals(device, steps);
  self->d_head = device_reals(device, steps * (size_t)network_head_stride(self->network));
  self->unwanted = device_reals(device, network_num_parameters(self->values));
  struct device_shared numbers = device_share(device, rows * sizeof(uint32_t));
  for (size_t i = 0; i < rows; i++) ((uint32_t *)numbers.host)[i] = (uint32_t)i;
  device->ops->upload_bytes(device, self->number, numbers.host, numbers.bytes);
  device->ops->wait(device, device->ops->mark(device));
  device_unshare(device, &numbers);
}

static enum status check(const struct network_config *network,
                         const struct algorithm_options *options, struct error *error) {
  (void)options;
  if (strcmp(network->network, "mlp") == 0) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--network=%s: sac has critics of vectors alone: give mlp, or for images and "
                     "memory --agent=ppo",
                     network->network);
}

static void *create(const struct learning *learning) {
  struct sac *self = check_alloc(1, sizeof(*self));
  *self = (struct sac){.device = learning->device,
                       .network = learning->network,
                       .policy = learning->policy,
                       .options = learning->options,
                       .seed = learning->seed,
                       .values = make_values(learning->network),
                       .T = (int)learning->options->unroll_length,
                       .N = learning->num_windows,
                       .A = network_inputs(learning->network)->box};
  declare(self);
  self->actor =
      network_workspace_create(self->network, self->device, (self->T + 1) * self->N, true);
  make_arrays(self);
  for (int c = 0; c < CRITICS; c++) make_critic(self, &self->critic[c]);
  return self;
}

static void destroy(void *self_) {
  struct sac *self = self_;
  const struct device_ops *ops = self->device->ops;
  void *arrays[] = {self->number,     self->zero,   self->none,     self->uniform,
                    self->action,     self->ends,   self->log_prob, self->returned,
                    self->d_log_prob, self->d_head, self->unwanted};
  device_release_all(self->device, arrays, sizeof(arrays) / sizeof(arrays[0]));
  for (int c = 0; c < CRITICS; c++) {
    struct critic *critic = &self->critic[c];
    network_workspace_destroy(critic->taken);
    network_workspace_destroy(critic->chosen);
    network_workspace_destroy(critic->target);
    network_observer_destroy(critic->observer);
    ops->release(self->device, critic->d_taken);
    ops->release(self->device, critic->d_chosen);
  }
  network_workspace_destroy(self->actor);
  network_destroy(self->values);
  free(self);
}

static const struct network_parameter *parameters(const void *self_, int *count) {
  const struct sac *self = self_;
  *count = self->num_parameters;
  return self->parameter;
}

static void init_parameters(const void *self_, float *host, uint64_t seed) {
  const struct sac *self = self_;
  double temperature = self->options->sac.temperature;
  for (int c = 0; c < CRITICS; c++)
    network_init_parameters(self->values, host + self->critic[c].at,
                            random_bits(seed, 0, 0, (uint32_t)c, RANDOM_PARAMETERS));
  host[self->P - 1] = temperature > 0 ? (float)log(temperature) : 0;
}

/* ---- gradient */

/* Other random numbers for every update. */
static void begin(void *self_, const struct schedule *schedule) {
  struct sac *self = self_;
  uint64_t update = (uint64_t)schedule->update;
  uint64_t seed =
      random_bits(self->seed, (uint32_t)(update >> 32), (uint32_t)update, 0, RANDOM_RESAMPLE);
  const struct device_draws draws = {.count = self->A,
                                     .environment = self->number,
                                     .life = self->zero,
                                     .step = self->zero,
                                     .greedy = self->none};
  self->device->ops->random_uniforms(self->device, self->uniform, seed, &draws, RANDOM_RESAMPLE,
                                     (self->T + 1) * self->N);
}

static const real *log_temperature(const struct sac *self, const struct parameters *params) {
  return device_at_const(self->device, params->online, self->P - 1);
}

static struct policy_rows rows_of(const struct sac *self) {
  return (struct policy_rows){.uniform = self->uniform};
}

/* Values of actions (T*N, A) of the steps that the inputs are of. */
static const real *values_of(struct sac *self, struct network_workspace *workspace,
                             const real *params, const struct device_inputs *inputs,
                             const void *action) {
  struct device_inputs with_action = *network_inputs(self->values);
  with_action.observation = inputs->observation;
  with_action.previous_action = action;
  with_action.flags = self->none; /* on a first row, too */
  struct network_outputs out;
  network_forward(workspace, &out, NULL, params, &with_action, NULL, self->T, self->N);
  return out.head;
}

/* What the critics are trained towards. */
static void targets(struct sac *self, const struct parameters *params,
                    const struct train_batch *batch, const struct device_inputs *inputs) {
  struct device *device = self->device;
  size_t N = (size_t)self->N;
  const struct device_inputs next = train_batch_inputs_from(batch, inputs, 1);
  const float *action = self->action + N * (size_t)self->A;
  const real *value[CRITICS];
  for (int c = 0; c < CRITICS; c++)
    value[c] =
        values_of(self, self->critic[c].target,
                  device_at_const(device, params->target, self->critic[c].at), &next, action);
  const struct soft_value_rule soft_value = {.run = {.rows = (size_t)self->T * N},
                                             .first = value[0],
                                             .second = value[1],
                                             .log_prob = self->log_prob + N,
                                             .log_temperature = log_temperature(self, params),
                                             .value = device_at(device, self->ends, N)};
  device->ops->run_rule(device, RULE_soft_value, &soft_value.run);
  const struct device_n_step n_step = {.T = self->T,
                                       .N = self->N,
                                       .n_steps = 1,
                                       .discount = (float)self->options->discount,
                                       .reward_scale = (float)self->options->reward_scale,
                                       .reward_clip = (float)self->options->reward_clip,
                                       .reward = batch->reward,
                                       .flags = batch->flags,
                                       .value = self->ends};
  device->ops->n_step(device, self->returned, NULL, NULL, &n_step);
}

static void losses(struct sac *self, real *sums, const real *const taken[CRITICS],
                   const real *const chosen[CRITICS], const struct parameters *params,
                   const struct train_batch *batch, const struct device_schedule *schedule) {
  const struct algorithm_options *options = self->options;
  const struct critic *critic = self->critic;
  const struct sac_rule rule = {
      .run = {.rows = (size_t)(self->T * self->N),
              .N = self->N,
              .reduction = algorithm_sums_over_time(options) ? LOSS_SUM_OVER_TIME : LOSS_MEAN,
              .schedule = schedule,
              .flags = batch->flags,
              .sums = sums},
      .taken_1 = taken[0],
      .taken_2 = taken[1],
      .chosen_1 = chosen[0],
      .chosen_2 = chosen[1],
      .returned = self->returned,
      .log_prob = self->log_prob,
      .reward = batch->reward + self->N, /* into the next step */
      .log_temperature = log_temperature(self, params),
      .d_taken_1 = critic[0].d_taken,
      .d_taken_2 = critic[1].d_taken,
      .d_chosen_1 = critic[0].d_chosen,
      .d_chosen_2 = critic[1].d_chosen,
      .d_log_prob = self->d_log_prob,
      .target_entropy = (float)options->sac.entropy_per_action * (float)self->A,
      .reward_scale = (float)options->reward_scale,
      .reward_limit = options->reward_clip > 0 ? (float)options->reward_clip : INFINITY};
  self->device->ops->run_rule(self->device, RULE_sac, &rule.run);
}

/* Of one critic: its own gradient, and that of the action that the policy chose. */
static void critic_backward(struct sac *self, struct critic *critic, real *gradient,
                            const struct parameters *params, const struct device_inputs *inputs) {
  struct device *device = self->device;
  const real *own = device_at_const(device, params->online, critic->at);
  network_backward(critic->taken, device_at(device, gradient, critic->at), own, critic->d_taken,
                   inputs, self->T, self->N);
  network_backward(critic->chosen, self->unwanted, own, critic->d_chosen, inputs, self->T, self->N);
}

static void policy_backward(struct sac *self, real *gradient, const struct network_outputs *out,
                            const struct parameters *params, const struct device_inputs *inputs) {
  struct device *device = self->device;
  int steps = self->T * self->N, I = device_inputs_size(network_inputs(self->values));
  real *d_inputs = self->critic[0].d_inputs;
  const struct sum_rule sum = {.run = {.rows = (size_t)steps * (size_t)I},
                               .a = d_inputs,
                               .b = self->critic[1].d_inputs,
                               .y = d_inputs};
  device->ops->run_rule(device, RULE_sum, &sum.run);
  const struct policy_rows rows = rows_of(self);
  self->policy->chosen_backward(device, self->d_head, out, &rows,
                                device_at(device, d_inputs, (size_t)(I - self->A)), I,
                                self->d_log_prob, steps);
  network_backward(self->actor, gradient, params->online, self->d_head, inputs, self->T, self->N);
}

static void temperature_gradient(struct sac *self, real *gradient, real *sums) {
  struct device *device = self->device;
  const struct temperature_rule rule = {
      .run = {.rows = 1},
      .too_low = device_at(device, sums, SAC_TOO_LOW),
      .steps = device_at(device, sums, SUM_STEPS),
      .d_log_temperature = device_at(device, gradient, self->P - 1),
      .learned = self->options->sac.temperature > 0 ? 0 : 1};
  device->ops->run_rule(device, RULE_temperature, &rule.run);
}

static void gradient(void *self_, real *gradient, const struct parameters *params,
                     const struct train_batch *batch, const struct device_inputs *inputs,
                     const struct device_schedule *schedule, int pass) {
  (void)pass;
  struct sac *self = self_;
  struct device *device = self->device;
  struct network_outputs out;
  network_forward(self->actor, &out, NULL, params->online, inputs, NULL, self->T + 1, self->N);
  const struct policy_rows rows = rows_of(self);
  self->policy->choose(device, self->action, self->log_prob, &out, &rows, (self->T + 1) * self->N);
  targets(self, params, batch, inputs);

  const real *taken[CRITICS], *chosen[CRITICS];
  for (int c = 0; c < CRITICS; c++) {
    struct critic *critic = &self->critic[c];
    const real *own = device_at_const(device, params->online, critic->at);
    taken[c] = values_of(self, critic->taken, own, inputs, batch->action);
    chosen[c] = values_of(self, critic->chosen, own, inputs, self->action);
  }
  real *sums = device_at(device, gradient, self->P);
  losses(self, sums, taken, chosen, params, batch, schedule);
  for (int c = 0; c < CRITICS; c++)
    critic_backward(self, &self->critic[c], gradient, params, inputs);
  policy_backward(self, gradient, &out, params, inputs);
  temperature_gradient(self, gradient, sums);
}

/* A critic's statistics of observations, and its target's: averaged ones would be far from those of
 * the observations for as long as they began with none. */
static void observe(const struct sac *self, const struct critic *critic,
                    const struct settled *settled) {
  struct device *device = self->device;
  size_t offset, count = network_observation_statistics(self->values, &offset);
  real *online = device_at(device, settled->online, critic->at);
  real *target = device_at(device, settled->target, critic->at);
  network_observe(critic->observer, online, settled->skipped, settled->inputs);
  device_copy(device, device_at(device, target, offset), device_at(device, online, offset), count);
}

/* Behind the optimiser's step: the targets follow. A temperature that is given holds, whatever a
 * run that goes on had learned. */
static void settle(void *self_, const struct settled *settled) {
  struct sac *self = self_;
  struct device *device = self->device;
  double temperature = self->options->sac.temperature;
  size_t first = self->critic[0].at;
  real *target = device_at(device, settled->target, first);
  const struct average_rule average = {.run = {.rows = self->P - 1 - first},
                                       .before = target,
                                       .trained = device_at(device, settled->online, first),
                                       .skipped = settled->skipped,
                                       .now = target,
                                       .share = (float)self->options->sac.polyak};
  device->ops->run_rule(device, RULE_average, &average.run);
  for (int c = 0; c < CRITICS; c++)
    if (self->critic[c].observer) observe(self, &self->critic[c], settled);
  if (temperature > 0)
    device_fill(device, device_at(device, settled->online, self->P - 1), (float)log(temperature),
                1);
}

static void complete(const void *self, struct losses *losses, const struct schedule *schedule) {
  (void)self, (void)schedule;
  losses->entropy = losses->sum[SAC_ENTROPY] / losses->sum[SUM_STEPS];
  losses->total = losses->term[TERM_CRITIC] + losses->term[TERM_POLICY];
}

const struct algorithm algorithm_sac = {
    .terms = terms,
    .num_terms = sizeof(terms) / sizeof(terms[0]),
    .num_sums = num_sums_of_sac,
    .target = TARGET_AVERAGED,
    .networks = 1 + CRITICS,
    .trained = 1 + 2 * CRITICS,
    .evaluated = CRITICS,
    .check = check,
    .create = create,
    .destroy = destroy,
    .parameters = parameters,
    .init_parameters = init_parameters,
    .begin = begin,
    .gradient = gradient,
    .settle = settle,
    .complete = complete,
};
