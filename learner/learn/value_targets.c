#include "learner/learn/value_targets.h"

/* Fewer than of observations, since returns grow as the policy learns. */
#define MOST_TARGETS (1 << 17)

void value_targets_init(struct value_targets *self, struct device *device,
                        const struct network *network) {
  *self = (struct value_targets){.device = device,
                                 .network = network,
                                 .most = MOST_TARGETS,
                                 .least = LEAST_DEVIATION_OF_RETURNS,
                                 .keeps_values = true};
  self->next = device_reals(device, NETWORK_VALUE_STATISTICS);
  self->deviation = device_at_const(device, self->next, NETWORK_VALUE_STATISTICS - 1);
  self->advantage_deviation = device_reals(device, 1);
  device_fill(device, self->next, 1, NETWORK_VALUE_STATISTICS);
  device_fill(device, self->advantage_deviation, 1, 1);
  if (!network_value_statistics(network, device, self->next)) return;
  self->mean = device_reals(device, num_sums_of_step_mean);
  self->spread = device_reals(device, num_sums_of_step_spread);
  self->schedule = device->ops->alloc(device, sizeof(struct device_schedule));
}

void value_targets_deinit(struct value_targets *self) {
  void *all[] = {self->next, self->advantage_deviation, self->mean, self->spread, self->schedule};
  device_release_all(self->device, all, sizeof(all) / sizeof(all[0]));
}

void value_targets_of_batch(struct value_targets *self, float least) {
  self->most = 0;
  self->least = least;
  self->keeps_values = false;
}

/* Of numbers (T, N). */
static void add_up(struct value_targets *self, const real *number, const uint8_t *flags, int T,
                   int N) {
  struct device *device = self->device;
  const struct rule_run run = {.rows = (size_t)(T * N),
                               .N = N,
                               .reduction = LOSS_MEAN,
                               .schedule = self->schedule,
                               .flags = flags,
                               .sums = self->mean};
  const struct step_mean_rule mean = {.run = run, .number = number};
  device->ops->run_rule(device, RULE_step_mean, &mean.run);
  device_add_up(device, self->mean, num_sums_of_step_mean);
  struct step_spread_rule spread = {.run = run,
                                    .number = number,
                                    .steps = device_at(device, self->mean, SUM_STEPS),
                                    .total = device_at(device, self->mean, SUM_TOTAL)};
  spread.run.sums = self->spread;
  device->ops->run_rule(device, RULE_step_spread, &spread.run);
  device_add_up(device, self->spread, num_sums_of_step_spread);
}

void value_targets_measure(struct value_targets *self, const real *params, const real *targets,
                           const uint8_t *flags, int T, int N) {
  struct device *device = self->device;
  const real *now = network_value_statistics(self->network, device, params);
  if (!now) return;
  add_up(self, targets, flags, T, N);
  const struct merge_targets_rule merge = {.run = {.rows = 1},
                                           .steps = device_at(device, self->mean, SUM_STEPS),
                                           .total = device_at(device, self->mean, SUM_TOTAL),
                                           .squares = device_at(device, self->spread, SUM_SPREAD),
                                           .count = now,
                                           .mean = device_at_const(device, now, 1),
                                           .deviation = device_at_const(device, now, 2),
                                           .next_count = self->next,
                                           .next_mean = device_at(device, self->next, 1),
                                           .next_deviation = device_at(device, self->next, 2),
                                           .most = self->most,
                                           .least = self->least};
  device->ops->run_rule(device, RULE_merge_targets, &merge.run);
}

void value_targets_measure_advantages(struct value_targets *self, const real *advantages,
                                      const uint8_t *flags, int T, int N) {
  if (!self->mean) return;
  add_up(self, advantages, flags, T, N);
  const struct deviation_rule rule = {.run = {.rows = 1},
                                      .steps = device_at(self->device, self->mean, SUM_STEPS),
                                      .squares = device_at(self->device, self->spread, SUM_SPREAD),
                                      .deviation = self->advantage_deviation,
                                      .least = LEAST_DEVIATION_OF_RETURNS};
  self->device->ops->run_rule(self->device, RULE_deviation, &rule.run);
}

void value_targets_adopt(struct value_targets *self, real *params, const real *skipped) {
  if (!network_value_statistics(self->network, self->device, params)) return;
  if (self->keeps_values)
    network_rescale_value(self->network, self->device, params, self->next, skipped);
  else
    network_set_value_statistics(self->network, self->device, params, self->next, skipped);
}
