/* The actor-critic rule, called as one loss. */
#ifndef ACORN_TESTS_UNIT_LEARNER_DEVICE_ACTOR_CRITIC_TESTING_H
#define ACORN_TESTS_UNIT_LEARNER_DEVICE_ACTOR_CRITIC_TESTING_H

#include "learner/learn/actor_critic.h"

struct actor_critic_costs {
  float baseline, kl;
  enum loss_reduction reduction;
};

/* out: the gradients at log-probability, entropy and value. given: vs, advantage, entropy. */
static inline void run_actor_critic(struct device *d, real *const out[3], real *sums,
                                    const struct device_trace *trace, const real *const given[3],
                                    const struct device_schedule *schedule,
                                    struct actor_critic_costs costs) {
  struct device_rule rule = actor_critic_rule(trace, given[0], given[1], given[2]);
  rule.out[ACTOR_CRITIC_D_LOG_PROB] = out[0];
  rule.out[ACTOR_CRITIC_D_ENTROPY] = out[1];
  rule.out[ACTOR_CRITIC_D_VALUE] = out[2];
  rule.sums = sums;
  rule.constant[ACTOR_CRITIC_BASELINE_COST] = costs.baseline;
  rule.constant[ACTOR_CRITIC_KL_COST] = costs.kl;
  rule.reduction = costs.reduction;
  rule.schedule = schedule;
  d->ops->run_rule(d, RULE_actor_critic, &rule);
}

#endif
