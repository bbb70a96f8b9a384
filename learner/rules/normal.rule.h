/* The normal distribution over the A numbers of an action, independent of each other: mean and the
 * logarithm of the standard deviation of each. Source: Williams 1992, section 6; as a policy for
 * actions of several numbers: Schulman et al. 2015, appendix.
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_NORMAL_RULE_H
#define ACORN_LEARNER_RULES_NORMAL_RULE_H
/* clang-format off */

/* action = mean + deviation * normal, of a uniform number in [0, 1) each; negative: the mean.
 * log_prob: of the action. */
#define MEMBERS_OF_normal_sample(IN, OUT, SUM, CONSTANT) \
  IN(mean, ROW) IN(log_std, ROW) IN(uniform, FLOATS) OUT(action, FLOATS) OUT(log_prob, FLOAT)

#define MEMBERS_OF_normal_evaluate(IN, OUT, SUM, CONSTANT) \
  IN(mean, ROW) IN(log_std, ROW) IN(action, FLOATS) OUT(log_prob, REAL) OUT(entropy, REAL)

/* d_mean = d_log_prob d log_prob / d mean; d_log_std = d_log_prob d log_prob / d log_std +
 * d_entropy d entropy / d log_std. */
#define MEMBERS_OF_normal_backward(IN, OUT, SUM, CONSTANT)                                   \
  IN(mean, ROW) IN(log_std, ROW) IN(action, FLOATS) IN(d_log_prob, REAL) IN(d_entropy, REAL) \
  OUT(d_mean, ROW) OUT(d_log_std, ROW)
/* clang-format on */

#endif

#ifdef RULE_BODY
#define HALF_LOG_TWO_PI num_of(0.918938533204672742)

/* a + b x */
RULE_FUNCTION num times_plus(num b, num x, float a) {
  return b * x + a;
}

/* The inverse of the error function in -1 < x < 1, to a few units in the last place of a float.
 * Source: Giles 2012, "Approximating the erfinv function", table 5 (single precision). */
RULE_FUNCTION num inverse_erf(num x) {
  num w = -num_log((num_of(1) - x) * (num_of(1) + x));
  num near = w - 2.5f, far = num_sqrt(num_max(w, num_of(0))) - 3.0f;
  num p = num_of(2.81022636e-08f), q = num_of(-0.000200214257f);
  p = times_plus(p, near, 3.43273939e-07f);
  p = times_plus(p, near, -3.5233877e-06f);
  p = times_plus(p, near, -4.39150654e-06f);
  p = times_plus(p, near, 0.00021858087f);
  p = times_plus(p, near, -0.00125372503f);
  p = times_plus(p, near, -0.00417768164f);
  p = times_plus(p, near, 0.246640727f);
  p = times_plus(p, near, 1.50140941f);
  q = times_plus(q, far, 0.000100950558f);
  q = times_plus(q, far, 0.00134934322f);
  q = times_plus(q, far, -0.00367342844f);
  q = times_plus(q, far, 0.00573950773f);
  q = times_plus(q, far, -0.0076224613f);
  q = times_plus(q, far, 0.00943887047f);
  q = times_plus(q, far, 1.00167406f);
  q = times_plus(q, far, 2.83297682f);
  return x * num_where_less(w, num_of(5), p, q);
}

/* Of a uniform number on the grid of 2^-24 (random_uniform), moved by half a step, which lies
 * evenly about 1/2 and is neither 0 nor 1: all of it exact in float. */
RULE_FUNCTION num normal_of(num uniform) {
  return 1.41421356f * inverse_erf(2.0f * uniform - 1 + 0x1p-24f);
}

RULE_BODY(normal_sample) {
  int A = x->A;
  num sum = num_of(0);
  ROW_EACH(a) {
    num uniform = floats_at(x->uniform, a), log_std = row_at(x->log_std, a);
    num z = num_where_less(uniform, num_of(0), num_of(0), normal_of(uniform));
    floats_put(x->action, a, row_at(x->mean, a) + num_exp(log_std) * z);
    sum -= 0.5f * z * z + log_std + HALF_LOG_TWO_PI;
  }
  x->log_prob = row_sum(sum);
}

/* How many deviations the action lies above the mean. */
RULE_FUNCTION num deviations(num action, num mean, num log_std) {
  return (action - mean) * num_exp(-log_std);
}

RULE_BODY(normal_evaluate) {
  int A = x->A;
  num log_prob = num_of(0), entropy = num_of(0);
  ROW_EACH(a) {
    num log_std = row_at(x->log_std, a);
    num z = deviations(floats_at(x->action, a), row_at(x->mean, a), log_std);
    log_prob -= 0.5f * z * z + log_std + HALF_LOG_TWO_PI;
    entropy += log_std + HALF_LOG_TWO_PI + 0.5f;
  }
  x->log_prob = row_sum(log_prob);
  x->entropy = row_sum(entropy);
}

RULE_BODY(normal_backward) {
  int A = x->A;
  ROW_EACH(a) {
    num log_std = row_at(x->log_std, a);
    num z = deviations(floats_at(x->action, a), row_at(x->mean, a), log_std);
    row_put(x->d_mean, a, x->d_log_prob * z * num_exp(-log_std));
    row_put(x->d_log_std, a, x->d_log_prob * (z * z - 1) + x->d_entropy);
  }
}
#endif
