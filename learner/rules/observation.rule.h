/* Observations on one scale: a number less the running mean of its place in the observation, over
 * its running deviation. Source: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample
 * variance", eqs. 1.5 (two passes) and 2.1 (two samples joined).
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_OBSERVATION_RULE_H
#define ACORN_LEARNER_RULES_OBSERVATION_RULE_H
/* clang-format off */

/* Clipped to +- limit. */
#define LEAST_VARIANCE 1e-8f /* added to each, so that none is divided by 0 */
#define MEMBERS_OF_normalize(IN, OUT, SUM, CONSTANT) \
  IN(number, AT) IN(mean, AT) IN(variance, AT) OUT(normalized, AT) CONSTANT(limit)

/* What images are divided by. */
#define MEMBERS_OF_deviation_at(IN, OUT, SUM, CONSTANT) IN(variance, REAL) OUT(deviation, REAL)

/* A row: the numbers of one place. squares: the sum of their squared distances from the mean. */
#define MEMBERS_OF_moments(IN, OUT, SUM, CONSTANT) \
  IN(numbers, ROW) OUT(mean, REAL) OUT(squares, REAL)

/* The statistics of `count` numbers and of `rows` more. The count stays at `most`: the statistics
 * are an exponential average from then on. skipped: 0, or NaN: they stay as they are. */
#define MEMBERS_OF_merge_moments(IN, OUT, SUM, CONSTANT)                                         \
  IN(count, REAL) IN(mean, REAL) IN(variance, REAL) IN(batch_mean, REAL) IN(batch_squares, REAL) \
  IN(skipped, ONE) OUT(new_count, REAL) OUT(new_mean, REAL) OUT(new_variance, REAL)              \
  CONSTANT(rows) CONSTANT(most)
/* clang-format on */

#endif

#ifdef RULE_BODY
RULE_FUNCTION num place_deviation(num variance) {
  return num_sqrt(variance + LEAST_VARIANCE);
}

/* A number that never varies is 0, and one that did not until now is at the limit. */
RULE_BODY(normalize) {
  num distance = (x->number - x->mean) / place_deviation(x->variance);
  x->normalized = clipped_to(distance, -x->limit, x->limit);
}

RULE_BODY(deviation_at) {
  x->deviation = place_deviation(x->variance);
}

/* From the first number on, so that digits are not lost where the mean is far from 0. */
RULE_BODY(moments) {
  int A = x->A;
  num first = row_at(x->numbers, 0), sum = num_of(0), squares = num_of(0);
  ROW_EACH(a) sum += row_at(x->numbers, a) - first;
  num mean = row_sum(sum) / num_of(A);
  ROW_EACH(a) {
    num distance = row_at(x->numbers, a) - first - mean;
    squares += distance * distance;
  }
  x->mean = first + mean;
  x->squares = row_sum(squares);
}

struct statistics {
  num count, mean, variance;
};

/* With so many numbers more, of this mean and so much squared distance from it. */
RULE_FUNCTION struct statistics joined(struct statistics s, num rows, num mean, num squares,
                                       num most) {
  num total = s.count + rows, before = s.count / total, share = rows / total;
  num moved = mean - s.mean;
  num variance = before * (s.variance + share * moved * moved) + squares / total;
  struct statistics next = {num_min(total, most), s.mean + share * moved, variance};
  return next;
}

RULE_BODY(merge_moments) {
  num zero = num_of(0);
  struct statistics before = {x->count, x->mean, x->variance};
  struct statistics next = joined(before, x->rows, x->batch_mean, x->batch_squares, x->most);
  x->new_count = num_where_equal(x->skipped, zero, next.count, x->count);
  x->new_mean = num_where_equal(x->skipped, zero, next.mean, x->mean);
  x->new_variance = num_where_equal(x->skipped, zero, next.variance, x->variance);
}
#endif
