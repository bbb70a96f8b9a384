#include "learner/learn/q_loss.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/check.h"

/* Device memory: time-major, of the steps (T, N), or rows (T+1, N). Of most arrays of steps only
 * those of the first `counted` of each window are computed. */
struct q_loss {
  struct device *device;
  struct q_loss_config config;
  size_t steps, counted_steps, rows;
  real *values;                        /* of rows, A; NULL where Z = 1, unless there is a mask */
  real *ends;                          /* of rows: what a return ends with */
  int32_t *best;                       /* of rows: its action */
  real *returned, *discounts;          /* of steps */
  int32_t *from;                       /* of steps: the row in which the return ends */
  real *probabilities;                 /* of steps, Z: of the atoms there; NULL where Z = 1 */
  real *error, *loss, *value, *target; /* of steps */
  real *gradient;        /* of steps, Z: of the loss at the numbers of the action taken */
  real *counts, *factor; /* of steps */
};

struct q_loss *q_loss_create(struct device *device, const struct q_loss_config *config) {
  struct q_loss *self = check_alloc(1, sizeof(*self));
  size_t steps = (size_t)config->T * (size_t)config->N, rows = steps + (size_t)config->N;
  size_t A = (size_t)config->values.A, Z = (size_t)config->values.Z;
  *self = (struct q_loss){.device = device,
                          .config = *config,
                          .steps = steps,
                          .counted_steps = (size_t)config->counted * (size_t)config->N,
                          .rows = rows};
  self->ends = device_reals(device, rows);
  self->best = device->ops->alloc(device, rows * sizeof(int32_t));
  self->from = device->ops->alloc(device, steps * sizeof(int32_t));
  real **of_steps[] = {&self->returned, &self->discounts, &self->error,  &self->loss,
                       &self->value,    &self->target,    &self->counts, &self->factor};
  for (size_t i = 0; i < sizeof(of_steps) / sizeof(of_steps[0]); i++)
    *of_steps[i] = device_reals(device, steps);
  self->gradient = device_reals(device, steps * Z);
  if (Z > 1 || config->masked) self->values = device_reals(device, rows * A);
  if (Z == 1) return self;
  self->probabilities = device_reals(device, steps * Z);
  return self;
}

void q_loss_destroy(struct q_loss *self) {
  if (!self) return;
  void *all[] = {self->values, self->ends,   self->best,     self->returned,      self->discounts,
                 self->from,   self->error,  self->gradient, self->probabilities, self->loss,
                 self->value,  self->target, self->counts,   self->factor};
  device_release_all(self->device, all, sizeof(all) / sizeof(all[0]));
  free(self);
}

static void run(const struct q_loss *self, enum rule which, const struct rule_run *rule) {
  self->device->ops->run_rule(self->device, which, rule);
}

/* What returns end with at each row. */
static void bootstrap(const struct q_loss *self, const struct q_loss_batch *batch) {
  const struct action_values *v = &self->config.values;
  const real *chooser =
      action_values_of(self->device, self->values,
                       self->config.double_q ? batch->online : batch->target, v, self->rows);
  chooser =
      action_values_masked(self->device, self->values, chooser, batch->mask, v->A, self->rows);
  const struct bootstrap_rule rule = {
      .run = {.rows = self->rows, .A = v->A},
      .chooser = {.x = chooser, .stride = v->A},
      .values = {.x = v->Z == 1 ? batch->target : chooser, .stride = v->A},
      .value = self->ends,
      .action = self->best,
      .rescaling = self->config.rescaling,
      .values_count = v->Z == 1};
  run(self, RULE_bootstrap, &rule.run);
}

static void returns(const struct q_loss *self, const struct q_loss_batch *batch) {
  const struct q_loss_config *config = &self->config;
  const struct device_n_step n_step = {.T = config->T,
                                       .N = config->N,
                                       .n_steps = config->n_steps,
                                       .discount = config->discount,
                                       .reward_scale = config->reward_scale,
                                       .reward_clip = config->reward_clip,
                                       .reward = batch->reward,
                                       .flags = batch->flags,
                                       .value = self->ends};
  self->device->ops->n_step(self->device, self->returned, self->discounts, self->from, &n_step);
}

/* Numbers of values. */
static void td_errors(const struct q_loss *self, const struct q_loss_batch *batch) {
  const struct td_error_rule rule = {
      .run = {.rows = self->counted_steps},
      .taken = {.x = batch->online,
                .stride = 1,
                .pick = batch->action,
                .choices = self->config.values.A},
      .returned = self->returned,
      .error = self->error,
      .loss = self->loss,
      .value = self->value,
      .target = self->target,
      .gradient = self->gradient,
      .rescaling = self->config.rescaling,
      .huber = self->config.huber > 0 ? self->config.huber : INFINITY};
  run(self, RULE_td_error, &rule.run);
}

/* Distributions of values. */
static void divergences(const struct q_loss *self, const struct q_loss_batch *batch) {
  const struct action_values *v = &self->config.values;
  const struct rule_run of_atoms = {.rows = self->counted_steps, .A = v->Z};
  const struct probabilities_rule ends = {
      .run = of_atoms,
      .logits = {.x = batch->target,
                 .stride = v->Z,
                 .from = self->from,
                 .pick = self->best,
                 .choices = v->A},
      .probability = {.x = self->probabilities, .stride = v->Z}};
  run(self, RULE_probabilities, &ends.run);
  const struct divergence_rule rule = {
      .run = of_atoms,
      .taken = {.x = batch->online, .stride = v->Z, .pick = batch->action, .choices = v->A},
      .bootstrap = {.x = self->probabilities, .stride = v->Z},
      .returned = self->returned,
      .discount = self->discounts,
      .error = self->error,
      .loss = self->loss,
      .value = self->value,
      .target = self->target,
      .gradient = {.x = self->gradient, .stride = v->Z},
      .low = v->low,
      .high = v->high};
  run(self, RULE_divergence, &rule.run);
}

static void add_up(const struct q_loss *self, real *td, real *sums,
                   const struct q_loss_batch *batch) {
  const struct q_loss_config *config = &self->config;
  device_fill(self->device, td, 0, self->steps);
  const struct q_learning_rule rule = {
      .run = {.rows = self->counted_steps,
              .N = config->N,
              .reduction = config->reduction,
              .schedule = batch->schedule,
              .flags = batch->flags,
              .sums = sums},
      .error = self->error,
      .loss = self->loss,
      .value = self->value,
      .target = self->target,
      .weight = batch->weight,
      .reward = batch->reward + config->N, /* into the next step */
      .td = td,
      .counts = self->counts,
      .factor = self->factor,
      .reward_scale = config->reward_scale,
      .reward_limit = config->reward_clip > 0 ? config->reward_clip : INFINITY};
  run(self, RULE_q_learning, &rule.run);
}

static void gradients(const struct q_loss *self, real *d_online, const struct q_loss_batch *batch) {
  const struct action_values *v = &self->config.values;
  device_fill(self->device, d_online, 0, self->steps * (size_t)(v->A * v->Z));
  const struct taken_gradient_rule rule = {
      .run = {.rows = self->counted_steps, .A = v->Z},
      .gradient = {.x = self->gradient, .stride = v->Z},
      .factor = self->factor,
      .d_taken = {.x = d_online, .stride = v->Z, .pick = batch->action, .choices = v->A}};
  run(self, RULE_taken_gradient, &rule.run);
}

static void priorities(const struct q_loss *self, float *priority, const real *td) {
  const int N = self->config.N;
  const struct priority_rule rule = {
      .run = {.rows = (size_t)N, .A = self->config.counted, .columns = N},
      .td = {.x = td, .stride = 0},
      .counts = {.x = self->counts, .stride = 0},
      .priority = priority,
      .eta = self->config.eta};
  run(self, RULE_priority, &rule.run);
}

void q_loss_run(struct q_loss *self, real *d_online, real *td, float *priority, real *sums,
                const struct q_loss_batch *batch) {
  bootstrap(self, batch);
  returns(self, batch);
  if (self->config.values.Z == 1)
    td_errors(self, batch);
  else
    divergences(self, batch);
  add_up(self, td, sums, batch);
  gradients(self, d_online, batch);
  priorities(self, priority, td);
}
