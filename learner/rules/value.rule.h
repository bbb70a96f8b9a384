/* Values on one scale: a value v of a network stands for deviation v + mean, by the running mean
 * and deviation of its targets. Where these move, the layer that gives v moves against them, so
 * that what v stands for stays. Source: van Hasselt et al. 2016, "Learning values across many
 * orders of magnitude", proposition 1 and algorithm 1.
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_VALUE_RULE_H
#define ACORN_LEARNER_RULES_VALUE_RULE_H
/* clang-format off */

/* Where no reward is ever met all targets are alike but for noise, which is not to count as much as
 * rewards would; so are advantages, which would lead the policy into a corner before the first. */
#define LEAST_DEVIATION_OF_RETURNS 1e-2f

/* Values of a network that has learned nothing are near 0. By the first statistics of targets they
 * may be this many deviations from their mean, and not hundreds, which would take long to learn. */
#define MOST_DEVIATIONS_AT_FIRST 3

/* shift: 1, what v stands for; 0, from the gradient at that to the gradient at v. */
#define MEMBERS_OF_scale_value(IN, OUT, SUM, CONSTANT) \
  IN(number, AT) IN(mean, ONE) IN(deviation, ONE) OUT(scaled, AT) CONSTANT(shift)

/* The statistics of the targets so far and of those of a batch: their number (0: nothing changes),
 * their sum, the sum of their squared distances from their mean. The count stays at `most`, see
 * merge_moments, 0: of the batch alone; the deviation is at least `least`. One number alone has
 * none: the one before it stays. */
#define MEMBERS_OF_merge_targets(IN, OUT, SUM, CONSTANT)                                   \
  IN(steps, REAL) IN(total, REAL) IN(squares, REAL) IN(count, REAL) IN(mean, REAL)         \
  IN(deviation, REAL) OUT(next_count, REAL) OUT(next_mean, REAL) OUT(next_deviation, REAL) \
  CONSTANT(most) CONSTANT(least)

/* Of the sum of squared distances from the mean; at least `least`. */
#define MEMBERS_OF_deviation(IN, OUT, SUM, CONSTANT) \
  IN(steps, REAL) IN(squares, REAL) OUT(deviation, REAL) CONSTANT(least)

/* A weight (shift 0) or the bias (1) of the layer that gives v, as these statistics become the
 * next ones. With the first ones, before which the count was 0, the bias moves no further than
 * MOST_DEVIATIONS_AT_FIRST: what v stands for follows the mean beyond. skipped: as of
 * merge_moments. */
#define MEMBERS_OF_rescale_value(IN, OUT, SUM, CONSTANT)                            \
  IN(number, AT) IN(count, ONE) IN(mean, ONE) IN(deviation, ONE) IN(next_mean, ONE) \
  IN(next_deviation, ONE) IN(skipped, ONE) OUT(rescaled, AT) CONSTANT(shift)

/* The next number; unless skipped the one before it. */
#define MEMBERS_OF_replace(IN, OUT, SUM, CONSTANT) \
  IN(before, REAL) IN(next, REAL) IN(skipped, ONE) OUT(now, REAL)
/* clang-format on */

#endif

#ifdef RULE_BODY
RULE_BODY(scale_value) {
  x->scaled = x->deviation * x->number + x->shift * x->mean;
}

RULE_BODY(deviation) {
  x->deviation = deviation_of(x->squares / num_max(x->steps, num_of(1)), x->least);
}

RULE_BODY(merge_targets) {
  num one = num_of(1), zero = num_of(0), steps = num_max(x->steps, one);
  num count = num_min(x->count, x->most), batch_mean = x->total / steps;
  /* Of none: beside a large number that counts for nothing a small one would lose digits. */
  num mean = num_where_equal(count, zero, batch_mean, x->mean);
  struct statistics before = {count, mean, x->deviation * x->deviation};
  struct statistics next = joined(before, steps, batch_mean, x->squares, x->most);
  num deviation = deviation_of(next.variance, x->least);
  /* As many steps have no deviation: one, where no others are remembered. */
  num too_few = num_where_equal(next.count, zero, one, zero);
  deviation = num_where_equal(x->steps, too_few, x->deviation, deviation);
  x->next_count = num_where_equal(x->steps, zero, x->count, next.count);
  x->next_mean = num_where_equal(x->steps, zero, x->mean, next.mean);
  x->next_deviation = num_where_equal(x->steps, zero, x->deviation, deviation);
}

RULE_BODY(rescale_value) {
  num zero = num_of(0), most = num_of(MOST_DEVIATIONS_AT_FIRST) * x->next_deviation;
  num by = x->mean - x->next_mean, first = num_max(num_min(by, most), -most);
  num shift = x->shift * num_where_equal(x->count, zero, first, by);
  num moved = (x->deviation * x->number + shift) / x->next_deviation;
  x->rescaled = num_where_equal(x->skipped, zero, moved, x->number);
}

RULE_BODY(replace) {
  x->now = num_where_equal(x->skipped, num_of(0), x->next, x->before);
}
#endif
