/* The losses of an actor-critic: of the policy, -advantage log pi; of the value, 0.5 (vs - V)^2;
 * the entropy bonus; and KL(behaviour, policy), as ratio - 1 - log ratio, which has the mean of
 * -log ratio and hardly varies where the two are alike. vs and the advantage are constants. Values
 * are divided by `deviation`, of the targets, and advantages by their own; or both by 1.
 * Source: Espeholt et al. 2018, section 4.2; Mnih et al. 2016; of the KL divergence, Schulman 2020,
 * "Approximating KL divergence".
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_ACTOR_CRITIC_RULE_H
#define ACORN_LEARNER_RULES_ACTOR_CRITIC_RULE_H
/* clang-format off */

#define MEMBERS_OF_actor_critic(IN, OUT, SUM, CONSTANT)                                     \
  IN(log_prob, REAL) IN(behaviour, FLOAT) IN(value, REAL) IN(vs, REAL) IN(advantage, REAL)  \
  IN(entropy, REAL) IN(reward, FLOAT) IN(deviation, ONE) IN(advantage_deviation, ONE)       \
  OUT(d_log_prob, REAL) OUT(d_entropy, REAL) OUT(d_value, REAL)                             \
  SUM(SUM_POLICY_LOSS, policy_loss) SUM(SUM_BASELINE_LOSS, baseline_loss)                   \
  SUM(SUM_ENTROPY, entropy_sum) SUM(SUM_KL, kl) SUM(SUM_VALUE, value_sum)                   \
  SUM(SUM_REWARD, learned_reward) SUM(SUM_RHO_CLIPPED, rho_clipped) SUM(SUM_TARGET, target) \
  SUM(SUM_TARGET_SQUARED, target_squared) SUM(SUM_ERROR_SQUARED, error_squared)             \
  CONSTANT(baseline_cost) CONSTANT(kl_cost) CONSTANT(reward_scale) CONSTANT(reward_limit)   \
  CONSTANT(rho_limit)
#define ACTOR_CRITIC_SUMS num_sums_of_actor_critic
/* rho_limit: a larger ratio counts as clipped; reward_limit: of rewards, once scaled. */
/* clang-format on */

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
