/* The loss of action values, of the steps of a batch. Source: Mnih et al. 2015; van Hasselt et al.
 * 2016; Kapturowski et al. 2019, section 2.3; of distributions: Bellemare et al. 2017, algorithm 1.
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_Q_LEARNING_RULE_H
#define ACORN_LEARNER_RULES_Q_LEARNING_RULE_H
/* clang-format off */

/* What a return ends with at a row: the value, by `values`, of the action that is best by
 * `chooser`; back from the scale on which values are (h, see td_error) to that of returns. NaN if a
 * number of the chooser is. values_count: 1, or 0: the value is 0, or NaN, and the action is all
 * that is wanted. */
#define MEMBERS_OF_bootstrap(IN, OUT, SUM, CONSTANT)                 \
  IN(chooser, ROW) IN(values, ROW) OUT(value, REAL) OUT(action, INT) \
  CONSTANT(rescaling) CONSTANT(values_count)

/* taken: Q(x_t, a_t), which is trained towards target = h(returned), taken as a constant. h(x) =
 * sign(x) (sqrt(|x| + 1) - 1) + rescaling x; rescaling 0: h(x) = x. Source: Pohlen et al. 2018.
 * loss: 0.5 error^2, or beyond an error of `huber` (infinity: nowhere) the line that continues it;
 * gradient: its slope at taken. */
#define MEMBERS_OF_td_error(IN, OUT, SUM, CONSTANT)                                       \
  IN(taken, AT) IN(returned, REAL)                                                        \
  OUT(error, REAL) OUT(loss, REAL) OUT(value, REAL) OUT(target, REAL) OUT(gradient, REAL) \
  CONSTANT(rescaling) CONSTANT(huber)

/* A row: logits of a distribution. */
#define MEMBERS_OF_probabilities(IN, OUT, SUM, CONSTANT) IN(logits, ROW) OUT(probability, ROW)

/* taken: logits of Z(x_t, a_t); bootstrap: the probabilities of the atoms z with which the return
 * ends, in returned + discount z, projected onto the atoms; discount 0: all lies at returned.
 * loss: the cross-entropy of the two; error: less the target's entropy, the KL divergence; value,
 * target: their means; gradient: of the loss at the logits. */
#define MEMBERS_OF_divergence(IN, OUT, SUM, CONSTANT)                                    \
  IN(taken, ROW) IN(bootstrap, ROW) IN(returned, REAL) IN(discount, REAL)                \
  OUT(error, REAL) OUT(loss, REAL) OUT(value, REAL) OUT(target, REAL) OUT(gradient, ROW) \
  CONSTANT(low) CONSTANT(high)

/* factor: what a step's gradient is multiplied by. td: its error; counts: 1; all are 0 where it
 * does not count. */
#define MEMBERS_OF_q_learning(IN, OUT, SUM, CONSTANT)                                      \
  IN(error, REAL) IN(loss, REAL) IN(value, REAL) IN(target, REAL) IN(weight, WINDOW)       \
  IN(reward, FLOAT) OUT(td, REAL) OUT(counts, REAL) OUT(factor, REAL)                      \
  SUM(Q_SUM_LOSS, weighted_loss) SUM(Q_SUM_TD, absolute_error) SUM(Q_SUM_VALUE, value_sum) \
  SUM(Q_SUM_TARGET, target_sum) SUM(Q_SUM_REWARD, learned_reward)                          \
  CONSTANT(reward_scale) CONSTANT(reward_limit)

#define MEMBERS_OF_taken_gradient(IN, OUT, SUM, CONSTANT) \
  IN(gradient, ROW) IN(factor, REAL) OUT(d_taken, ROW)

/* A row: the steps of a window. priority: eta max |td| + (1 - eta) mean |td| of those that count; 0
 * if none does. */
#define MEMBERS_OF_priority(IN, OUT, SUM, CONSTANT) \
  IN(td, ROW) IN(counts, ROW) OUT(priority, FLOAT) CONSTANT(eta)
/* clang-format on */

#endif

#ifdef RULE_BODY
/* h and its inverse, in forms that lose no digits where x or epsilon is small. */
RULE_FUNCTION num rescale(num x, num epsilon) {
  num rescaled = x * (1.0f / (num_sqrt(num_abs(x) + 1.0f) + 1.0f) + epsilon);
  return num_where_less(num_of(0), epsilon, rescaled, x);
}

RULE_FUNCTION num rescale_back(num x, num epsilon) {
  num root = num_sqrt(1.0f + 4.0f * epsilon * (num_abs(x) + 1.0f + epsilon));
  num slope = (2.0f - 4.0f * epsilon / (root + 1.0f + 2.0f * epsilon)) / (root + 1.0f);
  num back = x * slope * (2.0f + num_abs(x) * slope);
  return num_where_less(num_of(0), epsilon, back, x);
}

RULE_BODY(bootstrap) {
  int A = x->A;
  struct best best = best_of(x->chooser, A);
  num value = rescale_back(row_pick(x->values, best.action, A), x->rescaling);
  num poison = nan_or_zero(best.value);
  x->action = best.action;
  x->value = num_where_less(num_of(0), x->values_count, value, num_of(0)) + poison;
}

RULE_BODY(td_error) {
  x->value = x->taken;
  x->target = rescale(x->returned, x->rescaling);
  x->error = x->target - x->value;
  num slope = clipped_to(x->error, -x->huber, x->huber);
  x->loss = slope * (x->error - slope / 2.0f);
  x->gradient = -slope;
}

RULE_BODY(probabilities) {
  int A = x->A;
  struct softmax s = softmax_of(x->logits, A);
  num normaliser = s.largest + num_log(s.total);
  ROW_EACH(a) row_put(x->probability, a, num_exp(row_at(x->logits, a) - normaliser));
}

/* The share of a number, moved inside low..high, that falls to an atom: the two atoms it lies
 * between share it by their distances. */
RULE_FUNCTION num share_of(num number, num atom, struct atoms atoms) {
  num inside = clipped_to(number, atoms.low, atoms.high);
  num distance = num_abs(inside - atom) * num_of(atoms.count - 1) / (atoms.high - atoms.low);
  num left = num_of(1) - distance;
  return num_where_less(left, num_of(0), num_of(0), left);
}

/* What an atom gets of the distribution at returned + discount z, p being that of z. */
RULE_FUNCTION num projected(row_in p, num returned, num discount, num atom, struct atoms atoms) {
  int A = atoms.count;
  num sum = num_of(0);
  for (int j = 0; j < A; j++) {
    num end = returned + discount * atom_at(atoms, num_index(j));
    sum += row_at(p, j) * share_of(end, atom, atoms);
  }
  return num_where_equal(discount, num_of(0), share_of(returned, atom, atoms), sum);
}

RULE_BODY(divergence) {
  int A = x->A;
  struct softmax s = softmax_of(x->taken, A);
  num normaliser = s.largest + num_log(s.total), zero = num_of(0);
  num error = zero, loss = zero, value = zero, target = zero;
  struct atoms atoms = {x->low, x->high, A};
  ROW_EACH(a) {
    num atom = atom_at(atoms, num_index(a));
    num log_q = row_at(x->taken, a) - normaliser, q = num_exp(log_q);
    num p = projected(x->bootstrap, x->returned, x->discount, atom, atoms);
    value += q * atom;
    target += p * atom;
    loss -= p * log_q;
    error += num_where_equal(p, zero, zero, p * (num_log(p) - log_q));
    row_put(x->gradient, a, q - p);
  }
  x->value = row_sum(value), x->target = row_sum(target);
  x->loss = row_sum(loss), x->error = row_sum(error);
}

RULE_BODY(q_learning) {
  num zero = num_of(0);
  x->td = num_where_equal(x->scale, zero, zero, x->error);
  x->counts = num_where_equal(x->scale, zero, zero, num_of(1));
  x->factor = x->scale * x->weight;
  x->weighted_loss = x->weight * x->loss;
  x->absolute_error = num_abs(x->error);
  x->value_sum = x->value;
  x->target_sum = x->target;
  x->learned_reward = clipped_to(x->reward * x->reward_scale, -x->reward_limit, x->reward_limit);
}

RULE_BODY(taken_gradient) {
  int A = x->A;
  ROW_EACH(a) {
    num gradient = x->factor * row_at(x->gradient, a);
    row_put(x->d_taken, a, num_where_equal(x->factor, num_of(0), num_of(0), gradient));
  }
}

RULE_BODY(priority) {
  int A = x->A;
  num largest = num_of(0), total = num_of(0), count = num_of(0);
  ROW_EACH(a) {
    largest = num_max(num_abs(row_at(x->td, a)), largest);
    total += num_abs(row_at(x->td, a));
    count += row_at(x->counts, a);
  }
  largest = row_max(largest), total = row_sum(total), count = row_sum(count);
  num mean_part = (num_of(1) - x->eta) * total / num_max(count, num_of(1));
  x->priority = x->eta * largest + mean_part;
}
#endif
