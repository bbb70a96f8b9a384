/* Values of A actions, what is chosen by them, and distributions of a value over atoms, which lie
 * evenly from `low` to `high`.
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_ACTION_VALUES_RULE_H
#define ACORN_LEARNER_RULES_ACTION_VALUES_RULE_H

/* values = value + advantages - their mean. Source: Wang et al. 2016, eq. 9. */
#define INPUTS_OF_dueling(X) X(advantages, ROW) X(value, AT)
#define OUTPUTS_OF_dueling(X) X(values, ROW)
#define SUMS_OF_dueling(X)
#define CONSTANTS_OF_dueling(X)

#define INPUTS_OF_dueling_backward(X) X(d_values, ROW)
#define OUTPUTS_OF_dueling_backward(X) X(d_advantages, ROW) X(d_value, AT)
#define SUMS_OF_dueling_backward(X)
#define CONSTANTS_OF_dueling_backward(X)

/* A row: the logits of an action's distribution. value: its mean. Source: Bellemare et al. 2017. */
#define INPUTS_OF_expected_values(X) X(logits, ROW)
#define OUTPUTS_OF_expected_values(X) X(value, REAL)
#define SUMS_OF_expected_values(X)
#define CONSTANTS_OF_expected_values(X) X(low) X(high)

/* action: a random one where 0 <= uniform < epsilon: number floor(uniform / epsilon * A), in float
 * on every device, of the A that may be chosen; elsewhere the one with the largest value, the
 * lowest of equals. value: of that action; largest: of all (NaN if one is). */
#define INPUTS_OF_epsilon_greedy(X) X(values, ROW) X(uniform, FLOAT) X(epsilon, FLOAT)
#define OUTPUTS_OF_epsilon_greedy(X) X(action, INT) X(value, EVERY) X(largest, EVERY)
#define SUMS_OF_epsilon_greedy(X)
#define CONSTANTS_OF_epsilon_greedy(X)

/* |a - b| / max |b|, Euclidean over the actions; 0 where b is 0 throughout. Source: Kapturowski et
 * al. 2019, section 3 (Delta Q). */
#define INPUTS_OF_relative_distance(X) X(a, ROW) X(b, ROW)
#define OUTPUTS_OF_relative_distance(X) X(distance, REAL)
#define SUMS_OF_relative_distance(X)
#define CONSTANTS_OF_relative_distance(X)

#define INPUTS_OF_mean(X) X(numbers, ROW)
#define OUTPUTS_OF_mean(X) X(mean, REAL)
#define SUMS_OF_mean(X)
#define CONSTANTS_OF_mean(X)

/* Where a is y, in place. */
#define INPUTS_OF_sum(X) X(a, REAL) X(b, REAL)
#define OUTPUTS_OF_sum(X) X(y, REAL)
#define SUMS_OF_sum(X)
#define CONSTANTS_OF_sum(X)

#define INPUTS_OF_fill(X)
#define OUTPUTS_OF_fill(X) X(y, REAL)
#define SUMS_OF_fill(X)
#define CONSTANTS_OF_fill(X) X(value)

/* A learner's part of a mean, in place, before the sum; and the sum of all, by all weights, after
 * it (0: of no learner). */
#define INPUTS_OF_weigh(X) X(x, REAL) X(weight, ONE)
#define OUTPUTS_OF_weigh(X) X(y, REAL)
#define SUMS_OF_weigh(X)
#define CONSTANTS_OF_weigh(X)
#define INPUTS_OF_unweigh(X) X(x, REAL) X(weights, ONE)
#define OUTPUTS_OF_unweigh(X) X(y, REAL)
#define SUMS_OF_unweigh(X)
#define CONSTANTS_OF_unweigh(X)

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
