/* The categorical distribution over A actions: softmax of a row's logits. Of several choices
 * (struct space_choices) each has its own; the log-probability and the entropy of an action are the
 * sums of its choices'.
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_CATEGORICAL_RULE_H
#define ACORN_LEARNER_RULES_CATEGORICAL_RULE_H
/* clang-format off */

/* What stands for the logit or the value of an action that may not be chosen: its probability is 0,
 * and so are the gradients there, since it is finite. */
#define MASKED (-1e30f)

/* y = x where mask is above 0, MASKED elsewhere; where no number of a choice's mask is above 0, all
 * may be chosen. In place. */
#define MEMBERS_OF_mask(IN, OUT, SUM, CONSTANT) \
  IN(x, ROW) IN(mask, ROW) IN(choices, CHOICES) OUT(y, ROW)

/* uniform in [0, 1): the inverse of the cumulative distribution in the order of actions; a negative
 * one: the argmax, the lowest of equals. log_prob: of the action. */
#define MEMBERS_OF_categorical_sample(IN, OUT, SUM, CONSTANT) \
  IN(logits, ROW) IN(choices, CHOICES) IN(uniform, DRAWS) OUT(action, CHOSEN) OUT(log_prob, FLOAT)

/* An action that is out of range counts as 0. */
#define MEMBERS_OF_categorical_evaluate(IN, OUT, SUM, CONSTANT) \
  IN(logits, ROW) IN(choices, CHOICES) IN(action, CHOSEN) OUT(log_prob, REAL) OUT(entropy, REAL)

/* d_logits = d_log_prob d log_prob / d logits + d_entropy d entropy / d logits. */
#define MEMBERS_OF_categorical_backward(IN, OUT, SUM, CONSTANT)                                    \
  IN(logits, ROW) IN(choices, CHOICES) IN(action, CHOSEN) IN(d_log_prob, REAL) IN(d_entropy, REAL) \
  OUT(d_logits, ROW)
/* clang-format on */

#endif

#ifdef RULE_BODY
RULE_BODY(mask) {
  EACH_CHOICE(c, first, A) {
    row_in from = row_in_from(x->x, first), mask = row_in_from(x->mask, first);
    row_out to = row_out_from(x->y, first);
    num most = num_of(0);
    ROW_EACH(a) most = num_max(most, row_at(mask, a));
    num all = num_where_less(num_of(0), row_max(most), num_of(0), num_of(1));
    ROW_EACH(a) {
      num may = num_max(all, row_at(mask, a));
      row_put(to, a, num_where_less(num_of(0), may, row_at(from, a), num_of(MASKED)));
    }
  }
}

/* Of a row's exponentials: the largest logit, and the sum of exp(logit - largest). */
struct softmax {
  num largest, total;
};

RULE_FUNCTION struct softmax softmax_of(row_in logits, int A) {
  struct softmax s = {.largest = num_of(-INFINITY), .total = num_of(0)};
  ROW_EACH(a) s.largest = num_max(s.largest, row_at(logits, a));
  s.largest = row_max(s.largest);
  ROW_EACH(a) s.total += num_exp(row_at(logits, a) - s.largest);
  s.total = row_sum(s.total);
  return s;
}

RULE_FUNCTION num entropy_of(row_in logits, num normaliser, int A) {
  num sum = num_of(0);
  ROW_EACH(a) {
    num log_p = row_at(logits, a) - normaliser;
    sum -= num_exp(log_p) * log_p;
  }
  return row_sum(sum);
}

/* The first action of those with the largest logit. */
RULE_FUNCTION num argmax_of(row_in logits, num largest, int A) {
  num first = num_of(A);
  ROW_EACH(a)
  first = num_min(first, num_where_equal(row_at(logits, a), largest, num_index(a), num_of(A)));
  first = row_min(first);
  return num_where_less(first, num_of(A), first, num_of(0)); /* a NaN equals nothing */
}

/* The first action whose cumulative probability exceeds draw / total, never one of probability 0.
 * Rounding may leave the draw above all: then the last possible one. */
RULE_FUNCTION num inverse_cdf(row_in logits, num largest, num draw, int A) {
  num before = num_of(0), first = num_of(A), last = num_of(0);
  ROW_IN_ORDER(a) {
    num p = num_exp(row_at(logits, a) - largest), so_far = row_so_far(a, before, p);
    num possible = num_where_less(num_of(0), p, num_index(a), num_of(0));
    num drawn = num_where_less(draw, so_far, num_index(a), num_of(A));
    first = num_min(first, num_where_less(num_of(0), p, drawn, num_of(A)));
    last = num_max(last, possible);
  }
  first = row_min(first);
  return num_where_less(first, num_of(A), first, row_max(last));
}

RULE_FUNCTION num action_in_range(num action, int A) {
  num below = num_where_less(action, num_of(A), action, num_of(0));
  return num_max(below, num_of(0));
}

RULE_BODY(categorical_sample) {
  x->log_prob = num_of(0);
  EACH_CHOICE(c, first, A) {
    row_in logits = row_in_from(x->logits, first);
    num uniform = draws_at(x->uniform, c);
    struct softmax s = softmax_of(logits, A);
    num drawn = inverse_cdf(logits, s.largest, uniform * s.total, A);
    num greedy = argmax_of(logits, s.largest, A);
    num action = num_where_less(uniform, num_of(0), greedy, drawn);
    chosen_put(x->action, c, action);
    x->log_prob += row_pick(logits, action, A) - (s.largest + num_log(s.total));
  }
}

RULE_BODY(categorical_evaluate) {
  x->log_prob = x->entropy = num_of(0);
  EACH_CHOICE(c, first, A) {
    row_in logits = row_in_from(x->logits, first);
    struct softmax s = softmax_of(logits, A);
    num normaliser = s.largest + num_log(s.total);
    num action = action_in_range(chosen_at(x->action, c), A);
    x->log_prob += row_pick(logits, action, A) - normaliser;
    x->entropy += entropy_of(logits, normaliser, A);
  }
}

RULE_BODY(categorical_backward) {
  EACH_CHOICE(c, first, A) {
    row_in logits = row_in_from(x->logits, first);
    row_out d_logits = row_out_from(x->d_logits, first);
    struct softmax s = softmax_of(logits, A);
    num normaliser = s.largest + num_log(s.total);
    num action = action_in_range(chosen_at(x->action, c), A);
    num entropy = entropy_of(logits, normaliser, A);
    ROW_EACH(a) {
      num log_p = row_at(logits, a) - normaliser, p = num_exp(log_p);
      num taken = num_where_equal(num_index(a), action, num_of(1), num_of(0));
      row_put(d_logits, a, x->d_log_prob * (taken - p) - x->d_entropy * p * (log_p + entropy));
    }
  }
}
#endif
