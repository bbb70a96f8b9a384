/* The losses of PPO, of the steps of a minibatch. Source: Schulman et al. 2017, eqs. 7 and 9.
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_PPO_RULE_H
#define ACORN_LEARNER_RULES_PPO_RULE_H

/* Advantages and targets are normalised by their mean and deviation: of two sums over the steps,
 * one after the other, because the difference of squares loses digits. */
#define INPUTS_OF_step_mean(X) X(number, REAL)
#define OUTPUTS_OF_step_mean(X)
#define SUMS_OF_step_mean(X) X(SUM_TOTAL, total)
#define CONSTANTS_OF_step_mean(X)

#define INPUTS_OF_step_spread(X) X(number, REAL) X(steps, ONE) X(total, ONE)
#define OUTPUTS_OF_step_spread(X)
#define SUMS_OF_step_spread(X) X(SUM_SPREAD, squares)
#define CONSTANTS_OF_step_spread(X)

/* behaviour: log mu(a|x) of the policy that acted, old_value: V(x) before the first pass. steps,
 * total, squares: the sums above. deviation: of the targets, by which values are divided, or 1. */
#define INPUTS_OF_ppo(X) \
  X(log_prob, REAL)      \
  X(behaviour, FLOAT)    \
  X(value, REAL)         \
  X(old_value, REAL)     \
  X(target, REAL)        \
  X(advantage, REAL)     \
  X(entropy, REAL)       \
  X(reward, FLOAT)       \
  X(steps, ONE)          \
  X(total, ONE)          \
  X(squares, ONE)        \
  X(deviation, ONE)
#define OUTPUTS_OF_ppo(X) X(d_log_prob, REAL) X(d_entropy, REAL) X(d_value, REAL)
/* As those of actor_critic, and more. */
#define SUMS_OF_ppo(X)                  \
  X(PPO_POLICY_LOSS, policy_loss)       \
  X(PPO_BASELINE_LOSS, baseline_loss)   \
  X(PPO_ENTROPY, entropy_sum)           \
  X(PPO_KL, kl)                         \
  X(PPO_VALUE, value_sum)               \
  X(PPO_REWARD, learned_reward)         \
  X(PPO_CLIPPED, clipped)               \
  X(PPO_TARGET, target_sum)             \
  X(PPO_TARGET_SQUARED, target_squared) \
  X(PPO_ERROR_SQUARED, error_squared)
/* normalize: 1, or 0: advantages are only divided by the deviation. value_clip: how far a value may
 * move from the old one, in deviations, or infinity. */
#define CONSTANTS_OF_ppo(X) \
  X(clip_ratio)             \
  X(value_clip) X(normalize) X(baseline_cost) X(kl_cost) X(reward_scale) X(reward_limit)

/* stop: infinity where the mean KL divergence of a minibatch is above the limit; else as it was
 * before. */
#define INPUTS_OF_kl_stop(X) X(kl, REAL) X(steps, REAL) X(before, REAL)
#define OUTPUTS_OF_kl_stop(X) X(stop, REAL)
#define SUMS_OF_kl_stop(X)
#define CONSTANTS_OF_kl_stop(X) X(limit)

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
