/* Curiosity by random network distillation: how far a predictor is from a fixed random network, as
 * a reward and as the predictor's loss. Source: Burda et al. 2018, "Exploration by random network
 * distillation", sections 2.2 to 2.4.
 * Upstream: learner/rules. */
#ifndef ACORN_LEARNER_RULES_CURIOSITY_RULE_H
#define ACORN_LEARNER_RULES_CURIOSITY_RULE_H
/* clang-format off */

/* A number of an embedded observation, as networks read it. */
#define MEMBERS_OF_as_float(IN, OUT, SUM, CONSTANT) IN(number, REAL) OUT(same, FLOAT)

/* The mean of the squared differences of A features. */
#define MEMBERS_OF_novelty(IN, OUT, SUM, CONSTANT) \
  IN(features, ROW) IN(predicted, ROW) OUT(novelty, FLOAT)

/* d_novelty: of the loss with respect to the novelty. */
#define MEMBERS_OF_novelty_backward(IN, OUT, SUM, CONSTANT) \
  IN(features, ROW) IN(predicted, ROW) IN(d_novelty, REAL) OUT(d_predicted, ROW)

/* The sum of both advantages, in rewards of the environment: each over the deviation of its own
 * targets, times its weight. */
#define MEMBERS_OF_join_advantages(IN, OUT, SUM, CONSTANT)                                \
  IN(extrinsic, REAL) IN(intrinsic, REAL) IN(deviation, ONE) IN(intrinsic_deviation, ONE) \
  OUT(joined, REAL) CONSTANT(extrinsic_weight) CONSTANT(intrinsic_weight)

/* The losses. novelty: of the step that follows; uniform: of those below `share` the predictor
 * learns; value, target: intrinsic. mean, deviation: what the value is made with, of the batch
 * before; those of this batch's targets take their place behind the update, so the value learns to
 * be right with these. */
#define MEMBERS_OF_curiosity(IN, OUT, SUM, CONSTANT)                                   \
  IN(novelty, FLOAT) IN(uniform, FLOAT) IN(value, REAL) IN(target, REAL) IN(mean, ONE) \
  IN(deviation, ONE) IN(next_mean, ONE) IN(next_deviation, ONE)                        \
  OUT(d_novelty, REAL) OUT(d_value, REAL)                                              \
  SUM(CURIOSITY_REWARD, reward) SUM(CURIOSITY_PREDICTOR_LOSS, loss)                    \
  SUM(CURIOSITY_VALUE_LOSS, value_loss) CONSTANT(share) CONSTANT(baseline_cost)
/* clang-format on */

#endif

#ifdef RULE_BODY
RULE_BODY(as_float) {
  x->same = x->number;
}

RULE_BODY(novelty) {
  int A = x->A;
  num sum = num_of(0);
  ROW_EACH(a) {
    num difference = row_at(x->predicted, a) - row_at(x->features, a);
    sum += difference * difference;
  }
  x->novelty = row_sum(sum) / num_of(A);
}

RULE_BODY(novelty_backward) {
  int A = x->A;
  num slope = 2.0f * x->d_novelty / num_of(A);
  ROW_EACH(a) {
    num difference = row_at(x->predicted, a) - row_at(x->features, a);
    row_put(x->d_predicted, a, slope * difference);
  }
}

RULE_BODY(join_advantages) {
  num unit = x->deviation / x->intrinsic_deviation;
  x->joined = x->extrinsic_weight * x->extrinsic + x->intrinsic_weight * unit * x->intrinsic;
}

RULE_BODY(curiosity) {
  num weight = num_where_less(x->uniform, x->share, num_of(1) / x->share, num_of(0));
  num normalised_value = (x->value - x->mean) / x->deviation;
  num error = normalised_value - (x->target - x->next_mean) / x->next_deviation;
  x->d_novelty = x->scale * weight;
  x->d_value = x->scale * x->baseline_cost * error / x->deviation;
  x->reward = x->novelty / x->next_deviation;
  x->loss = weight * x->novelty;
  x->value_loss = 0.5f * error * error;
}
#endif
