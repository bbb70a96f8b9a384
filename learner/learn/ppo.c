/* ppo: proximal policy optimisation. Values, advantages and targets of a batch are computed once;
 * then several epochs go over its windows in minibatches, with a loss that gives no reason to move
 * the policy far from the one that acted. Minibatches are whole windows, so that recurrent networks
 * begin where acting did. Source: Schulman et al. 2017, algorithm 1 and eqs. 7 and 9; advantages:
 * Schulman et al. 2016, eq. 16. */
#include <math.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "learner/device/shared.h"
#include "learner/learn/actor_critic.h"
#include "learner/learn/algorithms.h"
#include "learner/learn/curiosity.h"
#include "learner/learn/value_targets.h"

_Static_assert((int)PPO_ERROR_SQUARED == (int)SUM_ERROR_SQUARED, "sums begin as actor_critic's");

enum { SUM_CURIOSITY = num_sums_of_ppo, SUM_STOP = SUM_CURIOSITY + CURIOSITY_SUMS, NUM_SUMS };

static const struct loss_term terms[] = {
    ACTOR_CRITIC_TERMS,
    {"policy/ratio_clipped", "share of probability ratios beyond --clip_ratio", NULL, PPO_CLIPPED},
    CURIOSITY_TERMS(SUM_CURIOSITY),
};

/* What a pass reads of its minibatch of n windows, gathered from the batch; (T, n) unless noted. */
struct minibatch {
  uint8_t *observation;  /* (T+1, n, row_stride) */
  void *previous_action; /* (T+1, n, action_bytes) */
  float *reward;         /* (T+1, n), and flags, frame (.., stack - 1; NULL: not stacked) */
  uint8_t *flags;
  int32_t *frame;
  void *action; /* (T, n, action_bytes) */
  float *behaviour;
  real *state; /* (n, S); NULL without recurrence */
  real *old_value, *target, *advantage;
};

struct ppo {
  struct curiosity *curiosity; /* or NULL. First: see curiosity_parameters */
  struct device *device;       /* read-only after create, as is all up to `passes` */
  const struct network *network;
  const struct policy *policy;
  const struct algorithm_options *options;
  uint64_t seed;
  size_t P;    /* own parameters included */
  int T, N, n; /* n: windows of a minibatch */
  int stride;  /* of the head's rows */
  size_t action_bytes;
  struct passes passes;

  /* Rows t N + window of each minibatch's steps, int32 (epochs, minibatches, T+1, n). No other
   * update is under way when one is begun: see stop_sum. */
  struct device_shared order;

  /* device memory, of a batch */
  struct network_workspace *all; /* (T+1)*N rows */
  real *value, *target;          /* (T+1, N) */
  real *advantage;               /* (T, N) */
  struct value_targets targets;
  real *stop; /* (1) infinite once a pass has ended the update */

  /* device memory, of a pass */
  struct minibatch part;
  struct network_workspace *workspace; /* (T+1)*n rows */
  real *mean, *spread;                 /* sums of the advantages */
  real *new_value, *log_prob, *entropy;
  real *d_log_prob, *d_entropy, *d_value;
  real *d_head; /* (T*n, stride) */
};

/* ---- create */

enum { MINIBATCHES = 4 }; /* unless told otherwise */

static enum status passes_of(struct passes *out, const struct algorithm_options *options,
                             int num_windows, struct error *error) {
  const struct ppo_options *own = &options->ppo;
  int most = own->most_minibatches ? own->most_minibatches : MINIBATCHES;
  int minibatches = own->minibatches ? (int)own->minibatches : most;
  while (!own->minibatches && num_windows % minibatches) minibatches--;
  *out = (struct passes){(int)own->epochs, minibatches};
  if (num_windows % minibatches == 0) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--minibatches=%d does not divide the %d windows of a batch: give a number "
                     "that does, 0 to have one chosen, or another --batch_size (which is the "
                     "number of environments where it is 0)",
                     minibatches, num_windows);
}

static struct minibatch make_minibatch(const struct ppo *self) {
  struct device *device = self->device;
  const struct device_inputs *inputs = network_inputs(self->network);
  size_t steps = (size_t)(self->T * self->n), rows = steps + (size_t)self->n;
  size_t S = (size_t)network_state_size(self->network);
  int frames = inputs->stack > 1 ? inputs->stack - 1 : 0;
  return (struct minibatch){
      .observation = device->ops->alloc(device, rows * inputs->row_stride),
      .previous_action = device->ops->alloc(device, rows * self->action_bytes),
      .reward = device->ops->alloc(device, rows * sizeof(float)),
      .flags = device->ops->alloc(device, rows),
      .frame = frames ? device->ops->alloc(device, rows * (size_t)frames * sizeof(int32_t)) : NULL,
      .action = device->ops->alloc(device, steps * self->action_bytes),
      .behaviour = device->ops->alloc(device, steps * sizeof(float)),
      .state = S ? device_reals(device, (size_t)self->n * S) : NULL,
      .old_value = device_reals(device, steps),
      .target = device_reals(device, steps),
      .advantage = device_reals(device, steps),
  };
}

static size_t order_rows(const struct ppo *self) {
  return (size_t)self->passes.epochs * (size_t)(self->T + 1) * (size_t)self->N;
}

static void make_arrays(struct ppo *self) {
  struct device *device = self->device;
  size_t all = (size_t)((self->T + 1) * self->N), steps = (size_t)(self->T * self->n);
  self->order = device_share(device, order_rows(self) * sizeof(int32_t));
  self->value = device_reals(device, all);
  self->target = device_reals(device, all);
  self->advantage = device_reals(device, all);
  self->stop = device_reals(device, 1);
  self->mean = device_reals(device, num_sums_of_step_mean);
  self->spread = device_reals(device, num_sums_of_step_spread);
  self->new_value = device_reals(device, steps);
  self->log_prob = device_reals(device, steps);
  self->entropy = device_reals(device, steps);
  self->d_log_prob = device_reals(device, steps);
  self->d_entropy = device_reals(device, steps);
  self->d_value = device_reals(device, steps);
  self->d_head = device_reals(device, steps * (size_t)self->stride);
}

static size_t action_bytes(const struct device_inputs *inputs) {
  int numbers = inputs->box ? inputs->box : space_num_choices(&inputs->choices);
  return (size_t)numbers * sizeof(float); /* as large as an int32 */
}

static void *create(const struct learning *learning) {
  struct ppo *self = check_alloc(1, sizeof(*self));
  *self = (struct ppo){.device = learning->device,
                       .network = learning->network,
                       .policy = learning->policy,
                       .options = learning->options,
                       .seed = learning->seed,
                       .P = network_num_parameters(learning->network),
                       .T = (int)learning->options->unroll_length,
                       .N = learning->num_windows,
                       .stride = network_head_stride(learning->network),
                       .action_bytes = action_bytes(network_inputs(learning->network))};
  struct error error;
  CHECK(passes_of(&self->passes, self->options, self->N, &error) == STATUS_OK, "%s", error.text);
  self->n = self->N / self->passes.minibatches;
  self->curiosity = curiosity_create(learning, self->passes.epochs, self->n);
  self->P += curiosity_num_parameters(self->curiosity);
  self->all = network_workspace_create(self->network, self->device, (self->T + 1) * self->N, false);
  self->workspace =
      network_workspace_create(self->network, self->device, (self->T + 1) * self->n, true);
  value_targets_init(&self->targets, self->device, self->network);
  self->part = make_minibatch(self);
  make_arrays(self);
  return self;
}

static void destroy(void *self_) {
  struct ppo *self = self_;
  const struct minibatch *part = &self->part;
  void *arrays[] = {part->observation, part->previous_action, part->reward,    part->flags,
                    part->frame,       part->action,          part->behaviour, part->state,
                    part->old_value,   part->target,          part->advantage, self->value,
                    self->target,      self->advantage,       self->stop,      self->mean,
                    self->spread,      self->new_value,       self->log_prob,  self->entropy,
                    self->d_log_prob,  self->d_entropy,       self->d_value,   self->d_head};
  device_release_all(self->device, arrays, sizeof(arrays) / sizeof(arrays[0]));
  curiosity_destroy(self->curiosity);
  value_targets_deinit(&self->targets);
  device_unshare(self->device, &self->order);
  network_workspace_destroy(self->all);
  network_workspace_destroy(self->workspace);
  free(self);
}

/* ---- before an update: which windows each minibatch has */

/* Fisher and Yates. */
static void shuffle(int *window, int N, uint64_t seed, int64_t update, int epoch) {
  for (int i = 0; i < N; i++) window[i] = i;
  for (int i = N - 1; i > 0; i--) {
    uint64_t draw =
        random_bits(seed, (uint32_t)epoch, (uint32_t)update, (uint32_t)i, RANDOM_MINIBATCH) >> 32;
    int other = (int)(draw * (uint64_t)(i + 1) >> 32), kept = window[i];
    window[i] = window[other];
    window[other] = kept;
  }
}

static void begin(void *self_, const struct schedule *schedule) {
  struct ppo *self = self_;
  int32_t *row = self->order.host;
  int *window = check_alloc((size_t)self->N, sizeof(*window));
  for (int epoch = 0; epoch < self->passes.epochs; epoch++) {
    shuffle(window, self->N, self->seed, schedule->update, epoch);
    for (int first = 0; first < self->N; first += self->n)
      for (int t = 0; t <= self->T; t++)
        for (int k = 0; k < self->n; k++) *row++ = t * self->N + window[first + k];
  }
  free(window);
  device_shared_upload(self->device, &self->order);
  curiosity_begin(self, schedule);
}

/* ---- once for each batch: values, advantages, targets */

static void copy_values(const struct ppo *self, real *value, const struct network_outputs *out,
                        int rows) {
  self->device->ops->copy_rows(self->device, value, 1,
                               device_at(self->device, out->head, (size_t)out->size), out->stride,
                               rows, 1);
}

static void prepare(void *self_, const struct parameters *params, const struct train_batch *batch,
                    const struct device_inputs *inputs) {
  struct ppo *self = self_;
  const struct device_ops *ops = self->device->ops;
  const struct algorithm_options *options = self->options;
  struct network_outputs out;
  network_forward(self->all, &out, NULL, params->online, inputs, batch->state, self->T + 1,
                  self->N);
  copy_values(self, self->value, &out, (self->T + 1) * self->N);
  const struct device_trace trace = {.kind = TRACE_GAE,
                                     .T = self->T,
                                     .N = self->N,
                                     .discount = (float)options->discount,
                                     .lambda = (float)options->actor_critic.lambda,
                                     .reward_scale = (float)options->reward_scale,
                                     .reward_clip = (float)options->reward_clip,
                                     .value = self->value,
                                     .reward = batch->reward,
                                     .flags = batch->flags};
  ops->trace(self->device, self->target, self->advantage, &trace);
  value_targets_measure(&self->targets, params->online, self->target, batch->flags, self->T,
                        self->N);
  curiosity_advantages(self->curiosity, self->advantage, params->online, batch, inputs, &trace,
                       self->targets.deviation);
  device_fill(self->device, self->stop, 0, 1);
}

/* ---- a pass */

/* (T+1, n) of a pass: rows of the batch. */
static const int32_t *order_of(const struct ppo *self, int pass) {
  return (const int32_t *)self->order.memory + (size_t)pass * (size_t)((self->T + 1) * self->n);
}

/* The rows of a pass's minibatch; returns what the network reads of them. */
static struct device_inputs gather(struct ppo *self, const struct train_batch *batch,
                                   const struct device_inputs *inputs, int pass) {
  const struct minibatch *part = &self->part;
  int steps = self->T * self->n, rows = steps + self->n;
  size_t real_bytes = self->device->ops->real_bytes;
  const struct {
    void *y;
    const void *x;
    int rows; /* those of fewer steps, or of a window, come first */
    size_t bytes;
  } arrays[] = {
      {part->observation, inputs->observation, rows, inputs->row_stride},
      {part->previous_action, inputs->previous_action, rows, self->action_bytes},
      {part->reward, batch->reward, rows, sizeof(float)},
      {part->flags, batch->flags, rows, 1},
      {part->frame, inputs->frame, rows, (size_t)(inputs->stack - 1) * sizeof(int32_t)},
      {part->action, batch->action, steps, self->action_bytes},
      {part->behaviour, batch->statistics, steps, sizeof(float)},
      {part->state, batch->state, self->n, (size_t)network_state_size(self->network) * real_bytes},
      {part->old_value, self->value, steps, real_bytes},
      {part->target, self->target, steps, real_bytes},
      {part->advantage, self->advantage, steps, real_bytes},
  };
  const int32_t *row = order_of(self, pass);
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
    if (arrays[i].y)
      self->device->ops->gather_rows(self->device, arrays[i].y, arrays[i].x, row, arrays[i].rows,
                                     arrays[i].bytes);
  struct device_inputs of_part = *inputs;
  of_part.observation = part->observation;
  of_part.previous_action = part->previous_action;
  of_part.reward = part->reward;
  of_part.flags = part->flags;
  of_part.frame = part->frame;
  return of_part;
}

/* What the rules of a pass have in common. */
static struct rule_run run_of(const struct ppo *self, const struct device_schedule *schedule,
                              real *sums) {
  return (struct rule_run){
      .rows = (size_t)(self->T * self->n),
      .N = self->n,
      .reduction = algorithm_sums_over_time(self->options) ? LOSS_SUM_OVER_TIME : LOSS_MEAN,
      .schedule = schedule,
      .flags = self->part.flags,
      .sums = sums};
}

static real *sum_at(const struct ppo *self, real *sums, int number) {
  return device_at(self->device, sums, (size_t)number);
}

static void measure_advantages(struct ppo *self, const struct device_schedule *schedule) {
  const struct device_ops *ops = self->device->ops;
  const struct step_mean_rule mean = {.run = run_of(self, schedule, self->mean),
                                      .number = self->part.advantage};
  ops->run_rule(self->device, RULE_step_mean, &mean.run);
  device_add_up(self->device, self->mean, num_sums_of_step_mean);
  const struct step_spread_rule spread = {.run = run_of(self, schedule, self->spread),
                                          .number = self->part.advantage,
                                          .steps = sum_at(self, self->mean, SUM_STEPS),
                                          .total = sum_at(self, self->mean, SUM_TOTAL)};
  ops->run_rule(self->device, RULE_step_spread, &spread.run);
  device_add_up(self->device, self->spread, num_sums_of_step_spread);
}

static void losses(struct ppo *self, real *sums, const struct device_schedule *schedule) {
  const struct algorithm_options *options = self->options;
  const struct ppo_options *own = &options->ppo;
  const struct minibatch *part = &self->part;
  const struct ppo_rule rule = {
      .run = run_of(self, schedule, sums),
      .log_prob = self->log_prob,
      .behaviour = part->behaviour,
      .value = self->new_value,
      .old_value = part->old_value,
      .target = part->target,
      .advantage = part->advantage,
      .entropy = self->entropy,
      .reward = part->reward + self->n, /* into the next step */
      .steps = sum_at(self, self->mean, SUM_STEPS),
      .total = sum_at(self, self->mean, SUM_TOTAL),
      .squares = sum_at(self, self->spread, SUM_SPREAD),
      .deviation = self->targets.deviation,
      .d_log_prob = self->d_log_prob,
      .d_entropy = self->d_entropy,
      .d_value = self->d_value,
      .clip_ratio = (float)own->clip_ratio,
      .value_clip = own->value_clip > 0 ? (float)own->value_clip : INFINITY,
      .normalize = own->normalize_advantages,
      .baseline_cost = (float)options->actor_critic.baseline_cost,
      .kl_cost = (float)options->actor_critic.kl_cost,
      .reward_scale = (float)options->reward_scale,
      .reward_limit = options->reward_clip > 0 ? (float)options->reward_clip : INFINITY};
  self->device->ops->run_rule(self->device, RULE_ppo, &rule.run);
}

/* Whether this pass and those after it are left out, by the minibatches of all learners. */
static void decide_stop(struct ppo *self, real *sums) {
  const struct device_ops *ops = self->device->ops;
  double limit = self->options->ppo.target_kl;
  const real *kl = sum_at(self, sums, PPO_KL), *steps = sum_at(self, sums, SUM_STEPS);
  if (self->device->peers) {
    real *all = sum_at(self, self->mean, SUM_TOTAL); /* of the advantages: no longer needed */
    device_copy(self->device, all, kl, 1);
    device_add_up(self->device, all, 1);
    kl = all, steps = sum_at(self, self->mean, SUM_STEPS);
  }
  const struct kl_stop_rule rule = {.run = {.rows = 1},
                                    .kl = kl,
                                    .steps = steps,
                                    .before = self->stop,
                                    .stop = self->stop,
                                    .limit = limit > 0 ? (float)limit : INFINITY};
  ops->run_rule(self->device, RULE_kl_stop, &rule.run);
  device_copy(self->device, sum_at(self, sums, SUM_STOP), self->stop, 1);
}

static void gradient(void *self_, real *gradient, const struct parameters *params,
                     const struct train_batch *batch, const struct device_inputs *inputs,
                     const struct device_schedule *schedule, int pass) {
  struct ppo *self = self_;
  struct device *device = self->device;
  const struct minibatch *part = &self->part;
  int T = self->T, n = self->n;
  real *sums = device_at(device, gradient, self->P);
  struct device_inputs of_part = gather(self, batch, inputs, pass);
  struct network_outputs out;
  network_forward(self->workspace, &out, NULL, params->online, &of_part, part->state, T, n);
  self->policy->evaluate(device, self->log_prob, self->entropy, &out, part->action, T * n);
  copy_values(self, self->new_value, &out, T * n);

  measure_advantages(self, schedule);
  losses(self, sums, schedule);
  decide_stop(self, sums);

  self->policy->backward(device, self->d_head, &out, part->action, self->d_log_prob,
                         self->d_entropy, T * n);
  device->ops->copy_rows(device, device_at(device, self->d_head, (size_t)out.size), out.stride,
                         self->d_value, 1, T * n, 1);
  network_backward(self->workspace, gradient, params->online, self->d_head, &of_part, T, n);
  const struct curiosity_part curious = {.row = order_of(self, pass),
                                         .flags = part->flags,
                                         .inputs = &of_part,
                                         .epoch = pass / self->passes.minibatches};
  curiosity_gradient(self->curiosity, gradient, sum_at(self, sums, SUM_CURIOSITY), params->online,
                     &curious, schedule);
}

static void settle(void *self_, const struct settled *settled) {
  struct ppo *self = self_;
  curiosity_settle(self->curiosity, settled);
  value_targets_adopt(&self->targets, settled->online, settled->skipped);
}

static void complete(const void *self_, struct losses *losses, const struct schedule *schedule) {
  const struct ppo *self = self_;
  actor_critic_total(losses, &self->options->actor_critic, schedule);
  losses->total += curiosity_loss(self->curiosity, losses, SUM_CURIOSITY);
}

const struct algorithm algorithm_ppo = {
    .terms = terms,
    .num_terms = sizeof(terms) / sizeof(terms[0]),
    .curious_terms = CURIOSITY_NUM_TERMS,
    .num_sums = NUM_SUMS,
    .num_figures = NUM_SUMS - SUM_STOP,
    .stop_sum = SUM_STOP,
    .divergence_sum = PPO_KL,
    .evaluated = 1,
    .check = curiosity_check,
    .passes = passes_of,
    .create = create,
    .destroy = destroy,
    .parameters = curiosity_parameters,
    .init_parameters = curiosity_init_parameters,
    .begin = begin,
    .prepare = prepare,
    .gradient = gradient,
    .settle = settle,
    .complete = complete,
};
