/* Values of A actions, what is chosen by them, and distributions of a value over atoms, which lie
 * evenly from `low` to `high`.
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_ACTION_VALUES_RULE_H
#define ACORN_LEARNER_RULES_ACTION_VALUES_RULE_H
/* clang-format off */

/* values = value + advantages - their mean. Source: Wang et al. 2016, eq. 9. */
#define MEMBERS_OF_dueling(IN, OUT, SUM, CONSTANT) \
  IN(advantages, ROW) IN(value, AT) OUT(values, ROW)

#define MEMBERS_OF_dueling_backward(IN, OUT, SUM, CONSTANT) \
  IN(d_values, ROW) OUT(d_advantages, ROW) OUT(d_value, AT)

/* A row: the logits of an action's distribution. value: its mean. Source: Bellemare et al. 2017. */
#define MEMBERS_OF_expected_values(IN, OUT, SUM, CONSTANT) \
  IN(logits, ROW) OUT(value, REAL) CONSTANT(low) CONSTANT(high)

/* action: a random one where 0 <= uniform < epsilon: number floor(uniform / epsilon * A), in float
 * on every device, of the A that may be chosen; elsewhere the one with the largest value, the
 * lowest of equals. value: of that action; largest: of all (NaN if one is). */
#define MEMBERS_OF_epsilon_greedy(IN, OUT, SUM, CONSTANT) \
  IN(values, ROW) IN(uniform, FLOAT) IN(epsilon, FLOAT)   \
  OUT(action, INT) OUT(value, EVERY) OUT(largest, EVERY)

/* |a - b| / max |b|, Euclidean over the actions; 0 where b is 0 throughout. Source: Kapturowski et
 * al. 2019, section 3 (Delta Q). */
#define MEMBERS_OF_relative_distance(IN, OUT, SUM, CONSTANT) \
  IN(a, ROW) IN(b, ROW) OUT(distance, REAL)

#define MEMBERS_OF_mean(IN, OUT, SUM, CONSTANT) IN(numbers, ROW) OUT(mean, REAL)

/* Where a is y, in place. */
#define MEMBERS_OF_sum(IN, OUT, SUM, CONSTANT) IN(a, REAL) IN(b, REAL) OUT(y, REAL)

#define MEMBERS_OF_fill(IN, OUT, SUM, CONSTANT) OUT(y, REAL) CONSTANT(value)

/* A learner's part of a mean, in place, before the sum; and the sum of all, by all weights, after
 * it (0: of no learner). */
#define MEMBERS_OF_weigh(IN, OUT, SUM, CONSTANT) IN(x, REAL) IN(weight, ONE) OUT(y, REAL)
#define MEMBERS_OF_unweigh(IN, OUT, SUM, CONSTANT) IN(x, REAL) IN(weights, ONE) OUT(y, REAL)
/* clang-format on */

#endif

#ifdef RULE_BODY
RULE_BODY(dueling) {
  int A = x->A;
  num mean = num_of(0);
  ROW_EACH(a) mean += row_at(x->advantages, a) / num_of(A);
  mean = row_sum(mean);
  ROW_EACH(a) row_put(x->values, a, x->value + row_at(x->advantages, a) - mean);
}

RULE_BODY(dueling_backward) {
  int A = x->A;
  num sum = num_of(0);
  ROW_EACH(a) sum += row_at(x->d_values, a);
  x->d_value = sum = row_sum(sum);
  ROW_EACH(a) row_put(x->d_advantages, a, row_at(x->d_values, a) - sum / num_of(A));
}

struct atoms {
  num low, high;
  int count;
};

RULE_FUNCTION num atom_at(struct atoms atoms, num place) {
  return atoms.low + place * (atoms.high - atoms.low) / num_of(atoms.count - 1);
}

RULE_BODY(expected_values) {
  int A = x->A;
  struct atoms atoms = {x->low, x->high, A};
  struct softmax s = softmax_of(x->logits, A);
  num normaliser = s.largest + num_log(s.total), mean = num_of(0);
  ROW_EACH(a)
  mean += num_exp(row_at(x->logits, a) - normaliser) * atom_at(atoms, num_index(a));
  x->value = row_sum(mean);
}

/* The largest value and the first action that has it; NaN if one of the values is. */
struct best {
  num value, action;
};

RULE_FUNCTION num nan_or_zero(num x) {
  return num_where_equal(x, x, num_of(0), num_of(NAN));
}

RULE_FUNCTION struct best best_of(row_in values, int A) {
  num largest = num_of(-INFINITY), poison = num_of(0);
  ROW_EACH(a) {
    largest = num_max(row_at(values, a), largest);
    poison += nan_or_zero(row_at(values, a));
  }
  largest = row_max(largest);
  struct best best = {largest + row_sum(poison), argmax_of(values, largest, A)};
  return best;
}

/* 1 or 0. */
RULE_FUNCTION num may_be_chosen(num value) {
  return num_where_less(value, num_of(MASKED / 2), num_of(0), num_of(1));
}

/* The action that has so many before it which may be chosen, and may be itself. */
RULE_FUNCTION num action_after(row_in values, num many, int A) {
  num before = num_of(0), first = num_of(A);
  ROW_IN_ORDER(a) {
    num may = may_be_chosen(row_at(values, a)), so_far = row_so_far(a, before, may);
    num here = num_where_less(many, so_far, num_index(a), num_of(A));
    first = num_min(first, num_where_less(num_of(0), may, here, num_of(A)));
  }
  first = row_min(first);
  return num_where_less(first, num_of(A), first, num_of(0));
}

RULE_BODY(epsilon_greedy) {
  int A = x->A;
  struct best best = best_of(x->values, A);
  num count = num_of(0);
  ROW_EACH(a) count += may_be_chosen(row_at(x->values, a));
  count = row_sum(count);
  num share = num_float(x->uniform / num_max(x->epsilon, num_of(1e-30f)));
  num place = num_min(num_float(share * count), count - num_of(1));
  num drawn = action_after(x->values, num_floor(num_max(place, num_of(0))), A);
  num random = num_where_less(x->uniform, x->epsilon, drawn, best.action);
  x->action = num_where_less(x->uniform, num_of(0), best.action, random);
  x->value = row_pick(x->values, x->action, A);
  x->largest = best.value;
}

RULE_BODY(relative_distance) {
  int A = x->A;
  num squares = num_of(0), total = num_of(0), largest = num_of(0);
  ROW_EACH(a) {
    num difference = row_at(x->a, a) - row_at(x->b, a);
    squares += difference * difference;
    total += num_abs(row_at(x->b, a));
    largest = num_max(num_abs(row_at(x->b, a)), largest);
  }
  squares = row_sum(squares), total = row_sum(total), largest = row_max(largest);
  x->distance = num_where_equal(total, num_of(0), num_of(0), num_sqrt(squares) / largest);
}

RULE_BODY(mean) {
  int A = x->A;
  num sum = num_of(0);
  ROW_EACH(a) sum += row_at(x->numbers, a);
  x->mean = row_sum(sum) / num_of(A);
}

RULE_BODY(sum) {
  x->y = x->a + x->b;
}

RULE_BODY(fill) {
  x->y = x->value;
}

RULE_BODY(weigh) {
  x->y = x->x * x->weight;
}

RULE_BODY(unweigh) {
  x->y = x->x / num_max(x->weights, num_of(1));
}
#endif
