/* The losses of soft actor-critic, and the normal distribution squashed by tanh that acts for it.
 * Source: Haarnoja et al. 2018, "Soft actor-critic algorithms and applications", sections 4 and 5
 * and appendix C; two critics: Fujimoto et al. 2018.
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_SAC_RULE_H
#define ACORN_LEARNER_RULES_SAC_RULE_H
/* clang-format off */

/* action = tanh(mean + deviation * normal), of a uniform number in [0, 1) each; negative: of the
 * mean. The logarithm of the deviation is kept between -20 and 2. log_prob: of the action. */
#define MEMBERS_OF_squashed_sample(IN, OUT, SUM, CONSTANT) \
  IN(mean, ROW) IN(log_std, ROW) IN(uniform, FLOATS) OUT(action, FLOATS) OUT(log_prob, FLOAT)

/* Of the same numbers: d_action d action + d_log_prob d log_prob, with the normal numbers as
 * constants. */
#define MEMBERS_OF_squashed_backward(IN, OUT, SUM, CONSTANT)                                \
  IN(mean, ROW) IN(log_std, ROW) IN(uniform, FLOATS) IN(d_action, ROW) IN(d_log_prob, REAL) \
  OUT(d_mean, ROW) OUT(d_log_std, ROW)

/* What a return ends with: the soft value of a row, by both target critics. */
#define MEMBERS_OF_soft_value(IN, OUT, SUM, CONSTANT) \
  IN(first, REAL) IN(second, REAL) IN(log_prob, FLOAT) IN(log_temperature, ONE) OUT(value, REAL)

/* taken: values of the action that was taken, by both critics; chosen: of the one that the policy
 * chooses now, of which log_prob is. returned: the target. too_low: of the entropy, below the one
 * that is wanted. */
#define MEMBERS_OF_sac(IN, OUT, SUM, CONSTANT)                                                    \
  IN(taken_1, REAL) IN(taken_2, REAL) IN(chosen_1, REAL) IN(chosen_2, REAL) IN(returned, REAL)    \
  IN(log_prob, FLOAT) IN(reward, FLOAT) IN(log_temperature, ONE)                                  \
  OUT(d_taken_1, REAL) OUT(d_taken_2, REAL) OUT(d_chosen_1, REAL) OUT(d_chosen_2, REAL)           \
  OUT(d_log_prob, REAL)                                                                           \
  SUM(SAC_VALUE_LOSS, value_loss) SUM(SAC_POLICY_LOSS, policy_loss) SUM(SAC_ENTROPY, entropy_sum) \
  SUM(SAC_TEMPERATURE, temperature) SUM(SAC_TOO_LOW, too_low) SUM(SAC_VALUE, value_sum)           \
  SUM(SAC_TARGET, target_sum) SUM(SAC_REWARD, learned_reward)                                     \
  CONSTANT(target_entropy) CONSTANT(reward_scale) CONSTANT(reward_limit)

/* d_log_temperature, of a mean over steps; learned: 1, or 0: it stays. */
#define MEMBERS_OF_temperature(IN, OUT, SUM, CONSTANT) \
  IN(too_low, REAL) IN(steps, REAL) OUT(d_log_temperature, REAL) CONSTANT(learned)

/* Averaged parameters follow those that are trained; skipped: as of merge_moments. */
#define MEMBERS_OF_average(IN, OUT, SUM, CONSTANT) \
  IN(before, REAL) IN(trained, REAL) IN(skipped, ONE) OUT(now, REAL) CONSTANT(share)
/* clang-format on */

#endif

#ifdef RULE_BODY
#define LOG_TWO num_of(0.693147180559945309)

RULE_FUNCTION num squashed(num x) {
  num e = num_exp(-2.0f * num_abs(x));
  num size = (num_of(1) - e) / (num_of(1) + e);
  return num_where_less(x, num_of(0), -size, size);
}

/* log(1 - tanh(x)^2), without the difference. */
RULE_FUNCTION num log_slope(num x) {
  num size = num_abs(x);
  return 2.0f * (LOG_TWO - size - num_log(num_of(1) + num_exp(-2.0f * size)));
}

RULE_FUNCTION num kept_log_std(num log_std) {
  return clipped_to(log_std, num_of(-20), num_of(2));
}

RULE_FUNCTION num normal_or_mean(num uniform) {
  return num_where_less(uniform, num_of(0), num_of(0), normal_of(uniform));
}

RULE_BODY(squashed_sample) {
  int A = x->A;
  num sum = num_of(0);
  ROW_EACH(a) {
    num log_std = kept_log_std(row_at(x->log_std, a));
    num z = normal_or_mean(floats_at(x->uniform, a));
    num before = row_at(x->mean, a) + num_exp(log_std) * z;
    floats_put(x->action, a, squashed(before));
    sum -= 0.5f * z * z + log_std + HALF_LOG_TWO_PI + log_slope(before);
  }
  x->log_prob = row_sum(sum);
}

RULE_BODY(squashed_backward) {
  int A = x->A;
  ROW_EACH(a) {
    num given = row_at(x->log_std, a), log_std = kept_log_std(given);
    num step = num_exp(log_std) * normal_or_mean(floats_at(x->uniform, a));
    num before = row_at(x->mean, a) + step, action = squashed(before);
    num d_before =
        row_at(x->d_action, a) * num_exp(log_slope(before)) + 2.0f * x->d_log_prob * action;
    num d_log_std = d_before * step - x->d_log_prob;
    row_put(x->d_mean, a, d_before);
    row_put(x->d_log_std, a, num_where_equal(given, log_std, d_log_std, num_of(0)));
  }
}

RULE_BODY(soft_value) {
  num temperature = num_exp(x->log_temperature);
  x->value = num_where_less(x->first, x->second, x->first, x->second) - temperature * x->log_prob;
}

RULE_BODY(sac) {
  num zero = num_of(0), temperature = num_exp(x->log_temperature);
  num error_1 = x->taken_1 - x->returned, error_2 = x->taken_2 - x->returned;
  x->d_taken_1 = x->scale * error_1;
  x->d_taken_2 = x->scale * error_2;

  num chosen = num_where_less(x->chosen_2, x->chosen_1, x->chosen_2, x->chosen_1);
  x->d_chosen_1 = num_where_less(x->chosen_2, x->chosen_1, zero, -x->scale);
  x->d_chosen_2 = num_where_less(x->chosen_2, x->chosen_1, -x->scale, zero);
  x->d_log_prob = x->scale * temperature;

  x->value_loss = 0.5f * (error_1 * error_1 + error_2 * error_2);
  x->policy_loss = temperature * x->log_prob - chosen;
  x->entropy_sum = -x->log_prob;
  x->temperature = temperature;
  x->too_low = x->target_entropy + x->log_prob;
  x->value_sum = x->taken_1;
  x->target_sum = x->returned;
  x->learned_reward = clipped_to(x->reward * x->reward_scale, -x->reward_limit, x->reward_limit);
}

RULE_BODY(temperature) {
  x->d_log_temperature = -x->learned * x->too_low / num_max(x->steps, num_of(1));
}

RULE_BODY(average) {
  num next = x->before + x->share * (x->trained - x->before);
  x->now = num_where_equal(x->skipped, num_of(0), next, x->before);
}
#endif
