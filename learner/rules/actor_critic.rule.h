/* The losses of an actor-critic: of the policy, -advantage log pi; of the value, 0.5 (vs - V)^2;
 * the entropy bonus; and KL(behaviour, policy), as ratio - 1 - log ratio, which has the mean of
 * -log ratio and hardly varies where the two are alike. vs and the advantage are constants. Values
 * are divided by `deviation`, of the targets, and advantages by their own; or both by 1.
 * Source: Espeholt et al. 2018, section 4.2; Mnih et al. 2016; of the KL divergence, Schulman 2020,
 * "Approximating KL divergence".
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_ACTOR_CRITIC_RULE_H
#define ACORN_LEARNER_RULES_ACTOR_CRITIC_RULE_H

#define INPUTS_OF_actor_critic(X) \
  X(log_prob, REAL)               \
  X(behaviour, FLOAT)             \
  X(value, REAL)                  \
  X(vs, REAL)                     \
  X(advantage, REAL)              \
  X(entropy, REAL)                \
  X(reward, FLOAT)                \
  X(deviation, ONE)               \
  X(advantage_deviation, ONE)
#define OUTPUTS_OF_actor_critic(X) X(d_log_prob, REAL) X(d_entropy, REAL) X(d_value, REAL)
#define SUMS_OF_actor_critic(X)         \
  X(SUM_POLICY_LOSS, policy_loss)       \
  X(SUM_BASELINE_LOSS, baseline_loss)   \
  X(SUM_ENTROPY, entropy_sum)           \
  X(SUM_KL, kl)                         \
  X(SUM_VALUE, value_sum)               \
  X(SUM_REWARD, learned_reward)         \
  X(SUM_RHO_CLIPPED, rho_clipped)       \
  X(SUM_TARGET, target)                 \
  X(SUM_TARGET_SQUARED, target_squared) \
  X(SUM_ERROR_SQUARED, error_squared)
#define ACTOR_CRITIC_SUMS num_sums_of_actor_critic
/* rho_limit: a larger ratio counts as clipped; reward_limit: of rewards, once scaled. */
#define CONSTANTS_OF_actor_critic(X) \
  X(baseline_cost) X(kl_cost) X(reward_scale) X(reward_limit) X(rho_limit)

#endif

#ifdef RULE_BODY
RULE_BODY(actor_critic) {
  num difference = x->value - x->vs;
  /* Infinity times no cost would be no number; what is none stays none. */
  num log_ratio = x->log_prob - x->behaviour, ratio = num_exp(num_min(num_of(30), log_ratio));
  num error = difference / x->deviation, advantage = x->advantage / x->advantage_deviation;
  num reward = x->reward * x->reward_scale;

  x->d_log_prob = -x->scale * (advantage - x->kl_cost * (ratio - 1));
  x->d_entropy = -x->scale * x->entropy_cost;
  x->d_value = x->scale * x->baseline_cost * error / x->deviation;

  x->policy_loss = -x->log_prob * advantage;
  x->baseline_loss = 0.5f * error * error;
  x->entropy_sum = x->entropy;
  x->kl = ratio - 1 - log_ratio;
  x->value_sum = x->value;
  x->learned_reward = num_max(-x->reward_limit, num_min(x->reward_limit, reward));
  x->rho_clipped = num_where_less(x->rho_limit, ratio, num_of(1), num_of(0));
  x->target = x->vs;
  x->target_squared = x->vs * x->vs;
  x->error_squared = difference * difference;
}
#endif
