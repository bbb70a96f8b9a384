#include "learner/learn/actor_critic.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/check.h"

struct actor_critic *actor_critic_create(const struct learning *learning, enum trace_kind trace) {
  const struct algorithm_options *options = learning->options;
  struct actor_critic *self = check_alloc(1, sizeof(*self));
  *self = (struct actor_critic){
      .curiosity = curiosity_create(learning, 0, 0),
      .device = learning->device,
      .policy = learning->policy,
      .options = options,
      .trace = trace,
      .reduction = algorithm_sums_over_time(options) ? LOSS_SUM_OVER_TIME : LOSS_MEAN,
      .P = network_num_parameters(learning->network),
      .T = (int)options->unroll_length,
      .N = learning->num_windows,
      .stride = network_head_stride(learning->network)};
  self->P += curiosity_num_parameters(self->curiosity);
  size_t N = (size_t)self->N, steps = (size_t)self->T * N;
  self->workspace =
      network_workspace_create(learning->network, self->device, (int)(steps + N), true);
  value_targets_init(&self->targets, self->device, learning->network);
  self->value = device_reals(self->device, steps + N);
  self->log_prob = device_reals(self->device, steps);
  self->entropy = device_reals(self->device, steps);
  self->vs = device_reals(self->device, steps);
  self->advantage = device_reals(self->device, steps);
  self->d_log_prob = device_reals(self->device, steps);
  self->d_entropy = device_reals(self->device, steps);
  self->d_value = device_reals(self->device, steps);
  self->d_head = device_reals(self->device, steps * (size_t)self->stride);
  return self;
}

void actor_critic_destroy(void *self_) {
  struct actor_critic *self = self_;
  void *arrays[] = {self->value,      self->log_prob,  self->entropy, self->vs,    self->advantage,
                    self->d_log_prob, self->d_entropy, self->d_value, self->d_head};
  device_release_all(self->device, arrays, sizeof(arrays) / sizeof(arrays[0]));
  curiosity_destroy(self->curiosity);
  value_targets_deinit(&self->targets);
  network_workspace_destroy(self->workspace);
  free(self);
}

static struct device_trace trace_of(const struct actor_critic *self,
                                    const struct train_batch *batch) {
  const struct algorithm_options *options = self->options;
  const struct actor_critic_options *own = &options->actor_critic;
  return (struct device_trace){
      .kind = self->trace,
      .T = self->T,
      .N = self->N,
      .discount = (float)options->discount,
      .lambda = (float)own->lambda,
      .rho_clip = (float)own->rho_clip,
      .c_clip = (float)own->c_clip,
      .pg_rho_clip = (float)own->pg_rho_clip,
      .reward_scale = (float)options->reward_scale,
      .reward_clip = (float)options->reward_clip,
      .log_prob = self->log_prob,
      .behaviour = batch->statistics,
      .value = self->value,
      .reward = batch->reward,
      .flags = batch->flags,
  };
}

/* The value's column of the head. */
static size_t value_of(const struct network_outputs *out) {
  return (size_t)out->size;
}

/* Heads of all T+1 steps, the last for its value only. */
static void forward(struct actor_critic *self, const real *params, const struct train_batch *batch,
                    const struct device_inputs *inputs) {
  const struct device_ops *ops = self->device->ops;
  struct network_outputs *out = &self->out;
  int T = self->T, N = self->N;
  network_forward(self->workspace, out, NULL, params, inputs, batch->state, T + 1, N);
  self->policy->evaluate(self->device, self->log_prob, self->entropy, out, batch->action, T * N);
  ops->copy_rows(self->device, self->value, 1, device_at(self->device, out->head, value_of(out)),
                 out->stride, (T + 1) * N, 1);
}

/* Nearly on-policy half of all ratios lie above 1, by next to nothing: what is counted as clipped
 * lies this much above the clip. */
#define CLIPPED_FROM 1.05f

struct actor_critic_rule actor_critic_rule(const struct device_trace *trace, const real *vs,
                                           const real *advantage, const real *entropy) {
  return (struct actor_critic_rule){
      .run = {.rows = (size_t)trace->T * (size_t)trace->N, .N = trace->N, .flags = trace->flags},
      .log_prob = trace->log_prob,
      .behaviour = trace->behaviour,
      .value = trace->value,
      .vs = vs,
      .advantage = advantage,
      .entropy = entropy,
      .reward = trace->reward + trace->N, /* into the next step */
      .reward_scale = trace->reward_scale,
      .reward_limit = trace->reward_clip > 0 ? trace->reward_clip : INFINITY,
      .rho_limit = trace->kind == TRACE_VTRACE ? CLIPPED_FROM * trace->rho_clip : INFINITY};
}

void actor_critic_losses(struct actor_critic *self, real *sums, const real *params,
                         const struct train_batch *batch, const struct device_inputs *inputs,
                         const struct device_schedule *schedule) {
  const struct actor_critic_options *own = &self->options->actor_critic;
  struct device_trace trace = trace_of(self, batch);
  forward(self, params, batch, inputs);
  self->device->ops->trace(self->device, self->vs, self->advantage, &trace);
  value_targets_measure(&self->targets, params, self->vs, batch->flags, self->T, self->N);
  curiosity_advantages(self->curiosity, self->advantage, params, batch, inputs, &trace,
                       self->targets.deviation);
  value_targets_measure_advantages(&self->targets, self->advantage, batch->flags, self->T, self->N);
  struct actor_critic_rule rule =
      actor_critic_rule(&trace, self->vs, self->advantage, self->entropy);
  rule.d_log_prob = self->d_log_prob;
  rule.d_entropy = self->d_entropy;
  rule.d_value = self->d_value;
  rule.deviation = self->targets.deviation;
  rule.advantage_deviation = self->targets.advantage_deviation;
  rule.run.sums = sums;
  rule.baseline_cost = (float)own->baseline_cost;
  rule.kl_cost = (float)own->kl_cost;
  rule.run.schedule = schedule;
  rule.run.reduction = self->reduction;
  self->device->ops->run_rule(self->device, RULE_actor_critic, &rule.run);
}

void actor_critic_backward(struct actor_critic *self, real *gradient, const real *params,
                           const struct train_batch *batch, const struct device_inputs *inputs) {
  const struct network_outputs *out = &self->out;
  int steps = self->T * self->N;
  self->policy->backward(self->device, self->d_head, out, batch->action, self->d_log_prob,
                         self->d_entropy, steps);
  self->device->ops->copy_rows(self->device, device_at(self->device, self->d_head, value_of(out)),
                               out->stride, self->d_value, 1, steps, 1);
  network_backward(self->workspace, gradient, params, self->d_head, inputs, self->T, self->N);
}

void actor_critic_gradient(void *self_, real *gradient, const struct parameters *params,
                           const struct train_batch *batch, const struct device_inputs *inputs,
                           const struct device_schedule *schedule, int pass) {
  (void)pass;
  struct actor_critic *self = self_;
  real *sums = device_at(self->device, gradient, self->P);
  actor_critic_losses(self, sums, params->online, batch, inputs, schedule);
  actor_critic_backward(self, gradient, params->online, batch, inputs);
  const struct curiosity_part part = {.flags = batch->flags};
  curiosity_gradient(self->curiosity, gradient, device_at(self->device, sums, ACTOR_CRITIC_SUMS),
                     params->online, &part, schedule);
}

void actor_critic_settle(void *self_, const struct settled *settled) {
  struct actor_critic *self = self_;
  curiosity_settle(self->curiosity, settled);
  value_targets_adopt(&self->targets, settled->online, settled->skipped);
}

/* 1 - Var(vs - V) / Var(vs). NaN where the targets are all alike, to within what sums of float32
 * resolve. */
static double explained_variance(const double *sum) {
  double steps = sum[SUM_STEPS], target = sum[SUM_TARGET] / steps;
  double square = sum[SUM_TARGET_SQUARED] / steps, variance = square - target * target;
  if (!(variance > 1e-5 * square)) return NAN;
  double error = target - sum[SUM_VALUE] / steps;
  return 1 - (sum[SUM_ERROR_SQUARED] / steps - error * error) / variance;
}

void actor_critic_complete(const void *self_, struct losses *losses,
                           const struct schedule *schedule) {
  const struct actor_critic *self = self_;
  actor_critic_total(losses, &self->options->actor_critic, schedule);
  losses->total += curiosity_loss(self->curiosity, losses, ACTOR_CRITIC_SUMS);
}

void actor_critic_total(struct losses *losses, const struct actor_critic_options *own,
                        const struct schedule *schedule) {
  double *term = losses->term;
  term[TERM_ENTROPY_COST] = schedule->entropy_cost;
  term[TERM_ENTROPY_LOSS] = -schedule->entropy_cost * term[TERM_ENTROPY];
  term[TERM_EXPLAINED_VARIANCE] = explained_variance(losses->sum);
  losses->entropy = term[TERM_ENTROPY];
  losses->total = term[TERM_POLICY_LOSS] + own->baseline_cost * term[TERM_BASELINE_LOSS] -
                  schedule->entropy_cost * term[TERM_ENTROPY] + own->kl_cost * term[TERM_KL];
}
