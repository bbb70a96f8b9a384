/* The reference device's loss of action values: operation q_loss. Part of ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_Q_LOSS_H
#define ACORN_LEARNER_DEVICE_REF_REF_Q_LOSS_H

#include "learner/device/ref/ref_q.h"

/* h and its inverse, in forms that lose no digits where x or epsilon is small. */
static REAL rescale(REAL x, REAL epsilon) {
  return epsilon > 0 ? x * (1 / (sqrt(fabs(x) + 1) + 1) + epsilon) : x;
}

static REAL rescale_back(REAL x, REAL epsilon) {
  if (!(epsilon > 0)) return x;
  REAL root = sqrt(1 + 4 * epsilon * (fabs(x) + 1 + epsilon));
  REAL slope = (2 - 4 * epsilon / (root + 1 + 2 * epsilon)) / (root + 1);
  return x * slope * (2 + fabs(x) * slope);
}

/* G_t = reward + discount * v, v of the action `action` in the row `target` of the target network;
 * NULL: the return ends without v. */
struct q_return {
  REAL reward, discount;
  const REAL *target;
  int action;
};

static struct q_return n_step_return(const struct device_q_loss *loss, int t, int n) {
  struct q_return g = {.discount = 1};
  int row = t, end = loss->n_steps < loss->T - t ? t + loss->n_steps : loss->T;
  while (row < end) {
    size_t i = (size_t)++row * loss->N + n;
    g.reward += g.discount * learned_reward(loss->reward[i], loss->reward_scale, loss->reward_clip);
    g.discount *= loss->flags[i] & STEP_TERMINATED ? 0 : (REAL)loss->discount;
    if (loss->flags[i] & (STEP_TERMINATED | STEP_TRUNCATED)) break;
  }
  if (g.discount == 0) return g;
  size_t at = ((size_t)row * loss->N + n) * loss->stride;
  g.target = (const REAL *)loss->target + at;
  const REAL *chooser = loss->double_q ? (const REAL *)loss->online + at : g.target;
  struct best best = best_action(chooser, &loss->values);
  g.action = best.action;
  if (isnan(best.value)) g.reward = best.value;
  return g;
}

/* ---- one step: its numbers (value and target as in enum q_sum), and what its loss, times `scale`,
 * adds to the gradient of its row */

struct q_step {
  REAL td, loss, value, target;
};

/* A gradient g of the number (a, z). */
static void add_gradient(REAL *drow, const struct device_action_values *v, int a, int z, REAL g) {
  drow[a * v->Z + z] += g;
  if (!v->dueling) return;
  drow[v->A * v->Z + z] += g;
  for (int k = 0; k < v->A; k++) drow[k * v->Z + z] -= g / (REAL)v->A;
}

static struct q_step scalar_step(REAL *drow, const REAL *row, const struct device_q_loss *loss,
                                 int action, const struct q_return *g, REAL scale) {
  REAL epsilon = (REAL)loss->rescaling, huber = (REAL)loss->huber;
  REAL v = g->target ? action_value(g->target, &loss->values, g->action) : 0;
  struct q_step step = {.value = action_value(row, &loss->values, action)};
  step.target = rescale(g->reward + g->discount * rescale_back(v, epsilon), epsilon);
  step.td = step.target - step.value;
  REAL slope = huber > 0 ? clip(step.td, huber) : step.td;
  step.loss = slope * (step.td - slope / 2);
  add_gradient(drow, &loss->values, action, 0, -scale * slope);
  return step;
}

/* The share of a number x, moved inside low..high, that falls to atom i: the two atoms it lies
 * between share it by their distances. */
static REAL share(const struct device_action_values *v, REAL x, int i) {
  REAL low = (REAL)v->low, high = (REAL)v->high;
  REAL inside = x < low ? low : x > high ? high : x;
  REAL left = 1 - fabs(inside - atom_at(v, i)) * (REAL)(v->Z - 1) / (high - low);
  return left < 0 ? 0 : left;
}

/* The probability of atom i in the target's distribution; normaliser: of its logits. */
static REAL projected(const struct device_action_values *v, const struct q_return *g,
                      REAL normaliser, int i) {
  if (!g->target) return share(v, g->reward, i);
  REAL sum = 0;
  for (int j = 0; j < v->Z; j++) {
    REAL p = exp(head_number(g->target, v, g->action, j) - normaliser);
    sum += p * share(v, g->reward + g->discount * atom_at(v, j), i);
  }
  return sum;
}

static struct q_step distribution_step(REAL *drow, const REAL *row,
                                       const struct device_q_loss *loss, int action,
                                       const struct q_return *g, REAL scale) {
  const struct device_action_values *v = &loss->values;
  REAL normaliser = head_normaliser(row, v, action);
  REAL target_normaliser = g->target ? head_normaliser(g->target, v, g->action) : 0;
  struct q_step step = {0};
  for (int z = 0; z < v->Z; z++) {
    REAL log_q = head_number(row, v, action, z) - normaliser;
    REAL p = projected(v, g, target_normaliser, z);
    step.value += exp(log_q) * atom_at(v, z);
    step.target += p * atom_at(v, z);
    step.loss -= p * log_q;
    step.td += p == 0 ? 0 : p * (log(p) - log_q);
    add_gradient(drow, v, action, z, scale * (exp(log_q) - p));
  }
  return step;
}

/* ---- all steps */

static bool step_counts(const struct device_q_loss *loss, int t, int n) {
  return t < loss->counted && !(loss->flags[(size_t)t * loss->N + n] & STEP_TRUNCATED);
}

static int in_range(int32_t action, int A) {
  return action >= 0 && action < A ? action : 0;
}

static REAL q_scale(const struct device_q_loss *loss) {
  if (loss->reduction == LOSS_SUM_OVER_TIME) return 1 / (REAL)loss->N;
  size_t count = 0;
  for (int t = 0; t < loss->T; t++)
    for (int n = 0; n < loss->N; n++) count += step_counts(loss, t, n);
  return count ? 1 / (REAL)count : 0;
}

static struct q_step q_step(REAL *dhead, const struct device_q_loss *loss, int t, int n,
                            REAL scale) {
  size_t i = (size_t)t * loss->N + n;
  struct q_return g = n_step_return(loss, t, n);
  return (loss->values.Z == 1 ? scalar_step : distribution_step)(
      dhead + i * loss->stride, (const REAL *)loss->online + i * loss->stride, loss,
      in_range(loss->action[i], loss->values.A), &g, scale);
}

static void ref_q_loss(struct device *d, real *dhead_, real *td_, float *priority, real *sums_,
                       const struct device_q_loss *loss) {
  (void)d;
  REAL *dhead = (REAL *)dhead_, *td = (REAL *)td_, scale = q_scale(loss);
  double sums[Q_SUMS] = {0};
  memset(dhead, 0, (size_t)loss->T * loss->N * loss->stride * sizeof(REAL));
  for (int n = 0; n < loss->N; n++) {
    REAL weight = loss->weight ? (REAL)loss->weight[n] : 1, largest = 0, total = 0;
    int count = 0;
    for (int t = 0; t < loss->T; t++) {
      size_t i = (size_t)t * loss->N + n;
      td[i] = 0;
      if (!step_counts(loss, t, n)) continue;
      struct q_step step = q_step(dhead, loss, t, n, scale * weight);
      td[i] = step.td;
      count++;
      total += fabs(step.td);
      if (fabs(step.td) > largest) largest = fabs(step.td);
      sums[Q_SUM_STEPS] += 1;
      sums[Q_SUM_LOSS] += weight * step.loss;
      sums[Q_SUM_TD] += fabs(step.td);
      sums[Q_SUM_VALUE] += step.value;
      sums[Q_SUM_TARGET] += step.target;
      sums[Q_SUM_REWARD] +=
          learned_reward(loss->reward[i + loss->N], loss->reward_scale, loss->reward_clip);
    }
    REAL eta = (REAL)loss->eta;
    priority[n] = count ? (float)(eta * largest + (1 - eta) * total / (REAL)count) : 0;
  }
  for (int k = 0; k < Q_SUMS; k++) ((REAL *)sums_)[k] = (REAL)sums[k];
}

#endif
