/* The losses of PPO, of the steps of a minibatch. Source: Schulman et al. 2017, eqs. 7 and 9.
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_PPO_RULE_H
#define ACORN_LEARNER_RULES_PPO_RULE_H
/* clang-format off */

/* Advantages and targets are normalised by their mean and deviation: of two sums over the steps,
 * one after the other, because the difference of squares loses digits. */
#define MEMBERS_OF_step_mean(IN, OUT, SUM, CONSTANT) IN(number, REAL) SUM(SUM_TOTAL, total)

#define MEMBERS_OF_step_spread(IN, OUT, SUM, CONSTANT) \
  IN(number, REAL) IN(steps, ONE) IN(total, ONE) SUM(SUM_SPREAD, squares)

/* behaviour: log mu(a|x) of the policy that acted, old_value: V(x) before the first pass. steps,
 * total, squares: the sums above. deviation: of the targets, by which values are divided, or 1.
 * Sums: those of actor_critic, in its order, and more. normalize: 1, or 0: advantages are only
 * divided by the deviation. value_clip: how far a value may move from the old one, in deviations,
 * or infinity. */
#define MEMBERS_OF_ppo(IN, OUT, SUM, CONSTANT)                                                 \
  IN(log_prob, REAL) IN(behaviour, FLOAT) IN(value, REAL) IN(old_value, REAL) IN(target, REAL) \
  IN(advantage, REAL) IN(entropy, REAL) IN(reward, FLOAT) IN(steps, ONE) IN(total, ONE)        \
  IN(squares, ONE) IN(deviation, ONE)                                                          \
  OUT(d_log_prob, REAL) OUT(d_entropy, REAL) OUT(d_value, REAL)                                \
  SUM(PPO_POLICY_LOSS, policy_loss) SUM(PPO_BASELINE_LOSS, baseline_loss)                      \
  SUM(PPO_ENTROPY, entropy_sum) SUM(PPO_KL, kl) SUM(PPO_VALUE, value_sum)                      \
  SUM(PPO_REWARD, learned_reward) SUM(PPO_CLIPPED, clipped) SUM(PPO_TARGET, target_sum)        \
  SUM(PPO_TARGET_SQUARED, target_squared) SUM(PPO_ERROR_SQUARED, error_squared)                \
  CONSTANT(clip_ratio) CONSTANT(value_clip) CONSTANT(normalize) CONSTANT(baseline_cost)        \
  CONSTANT(kl_cost) CONSTANT(reward_scale) CONSTANT(reward_limit)

/* stop: infinity where the mean KL divergence of a minibatch is above the limit; else as it was
 * before. */
#define MEMBERS_OF_kl_stop(IN, OUT, SUM, CONSTANT) \
  IN(kl, REAL) IN(steps, REAL) IN(before, REAL) OUT(stop, REAL) CONSTANT(limit)
/* clang-format on */

#endif

#ifdef RULE_BODY
RULE_BODY(step_mean) {
  x->total = x->number;
}

RULE_FUNCTION num mean_of_steps(num total, num steps) {
  return total / num_max(steps, num_of(1));
}

RULE_BODY(step_spread) {
  num difference = x->number - mean_of_steps(x->total, x->steps);
  x->squares = difference * difference;
}

/* At least `least`; NaN stays. */
RULE_FUNCTION num deviation_of(num variance, num least) {
  num deviation = num_sqrt(variance);
  return num_where_less(deviation, least, least, deviation);
}

/* Less its mean, over the unbiased estimate of its deviation; one alone, which has none, over that
 * of the targets. */
RULE_FUNCTION num normalised(num advantage, num steps, num total, num squares, num deviation) {
  num variance = mean_of_steps(squares, steps - 1);
  num own = deviation_of(variance, num_of(LEAST_DEVIATION_OF_RETURNS));
  num moved = (advantage - mean_of_steps(total, steps)) / own;
  return num_where_less(num_of(1), steps, moved, advantage / deviation);
}

RULE_FUNCTION num clipped_to(num x, num low, num high) {
  return num_where_less(x, low, low, num_where_less(high, x, high, x));
}

RULE_BODY(ppo) {
  num one = num_of(1), zero = num_of(0);
  /* Infinity times no cost would be no number. */
  num log_ratio = x->log_prob - x->behaviour, ratio = num_exp(num_min(num_of(30), log_ratio));
  num advantage = num_where_less(
      zero, x->normalize, normalised(x->advantage, x->steps, x->total, x->squares, x->deviation),
      x->advantage / x->deviation);

  /* L^CLIP: the worse of both. Where that is the clipped one, it does not depend on the policy. */
  num inside = clipped_to(ratio, one - x->clip_ratio, one + x->clip_ratio);
  num loss = -advantage * ratio, loss_clipped = -advantage * inside;
  num d_loss = num_where_less(loss, loss_clipped, zero, loss);
  x->policy_loss = num_where_less(loss, loss_clipped, loss_clipped, loss);
  x->d_log_prob = x->scale * (d_loss + x->kl_cost * (ratio - one));

  /* L^VF: likewise the worse of the value and the value kept near the old one. */
  num reach = x->value_clip * x->deviation;
  num near = clipped_to(x->value, x->old_value - reach, x->old_value + reach);
  num difference = x->value - x->target;
  num error = difference / x->deviation, error_near = (near - x->target) / x->deviation;
  num squared = error * error, squared_near = error_near * error_near;
  x->baseline_loss = 0.5f * num_where_less(squared, squared_near, squared_near, squared);
  num d_value = x->scale * x->baseline_cost * num_where_less(squared, squared_near, zero, error);
  x->d_value = d_value / x->deviation;

  x->d_entropy = -x->scale * x->entropy_cost;

  x->entropy_sum = x->entropy;
  x->kl = ratio - 1 - log_ratio;
  x->clipped = num_where_equal(ratio, inside, zero, one);
  x->value_sum = x->value;
  x->learned_reward = clipped_to(x->reward * x->reward_scale, -x->reward_limit, x->reward_limit);
  x->target_sum = x->target;
  x->target_squared = x->target * x->target;
  x->error_squared = difference * difference;
}

RULE_BODY(kl_stop) {
  x->stop = num_where_less(x->limit * x->steps, x->kl, num_of(INFINITY), x->before);
}
#endif
