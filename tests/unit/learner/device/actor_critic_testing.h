/* The actor-critic rule, called as one loss. */
#ifndef ACORN_TESTS_UNIT_LEARNER_DEVICE_ACTOR_CRITIC_TESTING_H
#define ACORN_TESTS_UNIT_LEARNER_DEVICE_ACTOR_CRITIC_TESTING_H

#include "learner/learn/actor_critic.h"

struct actor_critic_costs {
  float baseline, kl;
  enum loss_reduction reduction;
  float deviation;
};

/* out: the gradients at log-probability, entropy and value. given: vs, advantage, entropy. */
static inline void run_actor_critic(struct device *d, real *const out[3], real *sums,
                                    const struct device_trace *trace, const real *const given[3],
                                    const struct device_schedule *schedule,
                                    struct actor_critic_costs costs) {
  struct actor_critic_rule rule = actor_critic_rule(trace, given[0], given[1], given[2]);
  rule.d_log_prob = out[0];
  rule.d_entropy = out[1];
  rule.d_value = out[2];
  rule.run.sums = sums;
  rule.baseline_cost = costs.baseline;
  rule.kl_cost = costs.kl;
  rule.run.reduction = costs.reduction;
  rule.run.schedule = schedule;
  real *deviation = d->ops->alloc(d, d->ops->real_bytes);
  device_fill(d, deviation, costs.deviation, 1);
  rule.deviation = rule.advantage_deviation = deviation;
  d->ops->run_rule(d, RULE_actor_critic, &rule.run);
  device_finish(d);
  d->ops->release(d, deviation);
}

#endif
