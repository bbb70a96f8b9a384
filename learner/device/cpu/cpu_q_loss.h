/* The loss of action values: operation q_loss. Part of cpu_kernels.c. A lane is a window: first the
 * value that each row gives to returns which end there, then, windows W at a time, the returns and
 * the steps' losses. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_Q_LOSS_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_Q_LOSS_H

#include "learner/device/cpu/cpu_q.h"
#include "learner/device/cpu/cpu_trace.h"

/* h and its inverse, in forms that lose no digits where x or epsilon is small. */
INLINE vf rescale(vf x, float epsilon) {
  return epsilon > 0 ? x * (1.0f / (vsqrt(vabs(x) + 1.0f) + 1.0f) + epsilon) : x;
}

INLINE vf rescale_back(vf x, float epsilon) {
  if (!(epsilon > 0)) return x;
  vf root = vsqrt(4 * epsilon * vabs(x) + (1 + 4 * epsilon * (1 + epsilon)));
  vf slope = (2.0f - 4 * epsilon / (root + (1 + 2 * epsilon))) / (root + 1.0f);
  return x * slope * (2.0f + vabs(x) * slope);
}

/* Out of range counts as 0. */
INLINE vi actions_read(const int32_t *x, int lanes, int A) {
  vi action = load_int_some(x, lanes);
  return action & ((action >= 0) & (action < A));
}

/* ---- the rows' values. Arrays ((T+1) N), filled from row 1 on */

struct q_rows {
  float *value; /* Z = 1: v(x); Z > 1: of the action below, by the network that chose it */
  int32_t *action;
};

static void rows_fill(const struct q_rows *rows, const struct q_room *room,
                      const struct device_q_loss *loss) {
  const float *target = (const float *)loss->target,
              *chooser = loss->double_q ? (const float *)loss->online : target;
  size_t end = (size_t)(loss->T + 1) * loss->N;
  for (size_t i = (size_t)loss->N; i < end; i += W) {
    int lanes = lanes_left(end, i);
    values_read(room, chooser + i * loss->stride, loss->stride, lanes);
    struct best best = best_of(room->columns, loss->values.A);
    vf value = best.value;
    if (loss->values.Z == 1 && loss->double_q) {
      values_read(room, target + i * loss->stride, loss->stride, lanes);
      value = choose(value != value, value, chosen(room->columns, best.action, loss->values.A));
    }
    store_some(rows->value + i, rescale_back(value, loss->rescaling), lanes);
    store_int_some(rows->action + i, best.action, lanes);
  }
}

/* ---- returns: G_t = reward + discount * v(x_row); discount 0: without v */

struct q_returns {
  vf reward, discount;
  vi row;
};

INLINE struct q_returns n_step_returns(const struct device_q_loss *loss, int t, int n, int lanes) {
  struct q_returns g = {.reward = {0}, .discount = splat(1), .row = splat_int(t)};
  vi open = first_of_lanes(lanes);
  int end = t + at_most_int(loss->n_steps, loss->T - t);
  for (int row = t + 1; row <= end; row++) {
    size_t i = (size_t)row * loss->N + n;
    vi flags = load_bytes_some(loss->flags + i, lanes);
    vf reward = learned_rewards(loss->reward + i, loss->reward_scale, loss->reward_clip, lanes);
    g.reward += choose(open, g.discount * reward, splat(0));
    vf further = unless(flags, STEP_TERMINATED, g.discount * loss->discount, splat(0));
    g.discount = choose(open, further, g.discount);
    g.row = (open & row) | (~open & g.row);
    open &= (flags & (STEP_TERMINATED | STEP_TRUNCATED)) == 0;
  }
  return g;
}

/* ---- steps t of W windows: their numbers (value and target as in enum q_sum), and the gradients
 * of their heads. scale: what the gradient of each loss is multiplied by, 0 where a step does not
 * count */

struct q_steps {
  vf td, loss, value, target;
};

INLINE struct q_steps scalar_steps(float *dhead, const struct q_room *room,
                                   const struct q_rows *rows, const struct device_q_loss *loss,
                                   const float *head, int n, const struct q_returns *g, vi action,
                                   vi on, vf scale, int lanes) {
  int A = loss->values.A, stride = loss->stride;
  struct q_steps step;
  vf v = {0};
  for (int k = 0; k < W && k < lanes; k++) v[k] = rows->value[(size_t)g->row[k] * loss->N + n + k];
  values_read(room, head, stride, lanes);
  step.value = chosen(room->columns, action, A);
  step.target =
      rescale(g->reward + choose(g->discount == 0, splat(0), g->discount * v), loss->rescaling);
  step.td = step.target - step.value;
  vf limit = splat(loss->huber);
  vf slope = loss->huber > 0 ? vmax(-limit, vmin(limit, step.td)) : step.td;
  step.loss = slope * (step.td - 0.5f * slope);
  vf gradient = choose(on, -scale * slope, splat(0)),
     shared = loss->values.dueling ? gradient * (1.0f / (float)A) : splat(0);
  for (int a = 0; a < A; a++)
    store_column(dhead + a, stride, choose(action == a, gradient, splat(0)) - shared, lanes);
  if (loss->values.dueling) store_column(dhead + A, stride, gradient, lanes);
  return step;
}

/* p (width): probability of each atom in the target's distribution. An atom's share of a number is
 * what is left of 1 by the distance between them, in atoms; a product over all pairs of atoms, so
 * that NaN needs no care. row: of the target network's head; NULL: all is at `reward`. */
static void project(float *p, const struct q_room *room, const float *row, int action, float reward,
                    float discount) {
  const struct device_action_values *v = room->values;
  float per_atom = (float)(v->Z - 1) / (v->high - v->low), inverse = 1;
  static const float lane[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  if (row) {
    logits_read(room, row);
    inverse = 1 / softmax_along(room, action).total;
  }
  memset(p, 0, (size_t)room->width * sizeof *p);
  for (int j = 0; j < (row ? v->Z : 1); j++) {
    float x = row ? reward + discount * room->atoms[j] : reward;
    float inside = x < v->low ? v->low : x > v->high ? v->high : x;
    float place = (inside - v->low) * per_atom, last = (float)(v->Z - 1);
    if (place > last) place = last;
    float share = row ? room->exponentials[j] * inverse : 1;
    for (int z = 0; z < room->width; z += W) {
      vf distance = vabs(load(lane) + (float)z - place);
      store(p + z, load(p + z) + share * vmax(splat(0), 1.0f - distance));
    }
  }
}

/* One step, lane k of `steps`. p: room for (width). */
static void distribution_step(struct q_steps *steps, int k, float *dhead, float *p,
                              const struct q_room *room, const float *head, int action,
                              float scale) {
  const struct device_action_values *v = room->values;
  logits_read(room, head);
  struct q_softmax softmax = softmax_along(room, action);
  vf td = {0}, loss = {0}, value = {0}, target = {0};
  float inverse = 1 / softmax.total;
  for (int z = 0; z < v->Z; z += W) {
    int lanes = v->Z - z;
    vf m = load(p + z), q = load(room->exponentials + z) * inverse, atom = load(room->atoms + z);
    vf log_q = choose(first_of_lanes(lanes),
                      load(room->logits + action * room->width + z) - softmax.normaliser, splat(0));
    vf log_m = choose(m > 0, vlog(choose(m > 0, m, splat(1))), splat(0));
    value += q * atom;
    target += m * atom;
    loss -= m * log_q;
    td += m * (log_m - log_q);
    vf gradient = scale * (q - m), shared = {0};
    if (v->dueling) {
      shared = gradient * (1.0f / (float)v->A);
      store_some(dhead + v->A * v->Z + z, gradient, lanes);
    }
    for (int a = 0; a < v->A; a++)
      store_some(dhead + a * v->Z + z, (a == action ? gradient : splat(0)) - shared, lanes);
  }
  steps->td[k] = sum_lanes(td), steps->loss[k] = sum_lanes(loss);
  steps->value[k] = sum_lanes(value), steps->target[k] = sum_lanes(target);
}

INLINE struct q_steps distribution_steps(float *dhead, const struct q_room *room,
                                         const struct q_rows *rows,
                                         const struct device_q_loss *loss, const float *head, int n,
                                         const struct q_returns *g, vi action, vi on, vf scale,
                                         int lanes) {
  struct q_steps steps = {0};
  float *p = room->more;
  for (int k = 0; k < W && k < lanes; k++) {
    if (!on[k]) continue;
    size_t at = (size_t)g->row[k] * loss->N + n + k, offset = (size_t)k * loss->stride;
    bool bootstrap = g->discount[k] != 0;
    const float *row = bootstrap ? (const float *)loss->target + at * loss->stride : NULL;
    float poison = bootstrap && isnan(rows->value[at]) ? NAN : 0;
    project(p, room, row, rows->action[at], g->reward[k] + poison, g->discount[k]);
    distribution_step(&steps, k, dhead + offset, p, room, head + offset, action[k], scale[k]);
  }
  return steps;
}

/* ---- all steps */

INLINE vi steps_count(const struct device_q_loss *loss, int t, size_t i, int lanes) {
  vi flags = load_bytes_some(loss->flags + i, lanes);
  return first_of_lanes(t < loss->counted ? lanes : 0) & ((flags & STEP_TRUNCATED) == 0);
}

static float q_scale(const struct device_q_loss *loss) {
  if (loss->reduction == LOSS_SUM_OVER_TIME) return 1.0f / (float)loss->N;
  int count = 0;
  size_t steps = (size_t)at_most_int(loss->counted, loss->T) * loss->N;
  for (size_t i = 0; i < steps; i++) count += !(loss->flags[i] & STEP_TRUNCATED);
  return count ? 1.0f / (float)count : 0;
}

/* What is summed over the steps of W windows, each in its lane. */
struct q_totals {
  vf sums[Q_SUMS], largest, total, count; /* the last three: |TD| of these windows */
};

INLINE void totals_add(struct q_totals *totals, const struct q_steps *step, vi on, vf weight,
                       vf reward) {
  vf zero = {0}, error = choose(on, vabs(step->td), zero), one = choose(on, splat(1), zero);
  totals->largest = vmax(totals->largest, error);
  totals->total += error;
  totals->count += one;
  totals->sums[Q_SUM_STEPS] += one;
  totals->sums[Q_SUM_LOSS] += choose(on, weight * step->loss, zero);
  totals->sums[Q_SUM_TD] += error;
  totals->sums[Q_SUM_VALUE] += choose(on, step->value, zero);
  totals->sums[Q_SUM_TARGET] += choose(on, step->target, zero);
  totals->sums[Q_SUM_REWARD] += choose(on, reward, zero);
}

/* Windows n .. n + lanes. */
INLINE void windows_loss(float *dhead, float *td, struct q_totals *totals,
                         const struct q_room *room, const struct q_rows *rows,
                         const struct device_q_loss *loss, int n, int lanes, float scale) {
  vf weight = loss->weight ? load_some(loss->weight + n, lanes) : splat(1);
  for (int t = 0; t < loss->T; t++) {
    size_t i = (size_t)t * loss->N + n;
    vi on = steps_count(loss, t, i, lanes),
       action = actions_read(loss->action + i, lanes, loss->values.A);
    struct q_returns g = n_step_returns(loss, t, n, lanes);
    const float *head = (const float *)loss->online + i * loss->stride;
    float *dhead_t = dhead + i * loss->stride;
    struct q_steps step = loss->values.Z == 1
                              ? scalar_steps(dhead_t, room, rows, loss, head, n, &g, action, on,
                                             scale * weight, lanes)
                              : distribution_steps(dhead_t, room, rows, loss, head, n, &g, action,
                                                   on, scale * weight, lanes);
    store_some(td + i, choose(on, step.td, splat(0)), lanes);
    totals_add(
        totals, &step, on, weight,
        learned_rewards(loss->reward + i + loss->N, loss->reward_scale, loss->reward_clip, lanes));
  }
}

static void q_loss(struct device *d, real *dhead, real *td, float *priority, real *sums,
                   const struct device_q_loss *loss) {
  size_t rows_count = (size_t)(loss->T + 1) * loss->N;
  struct q_room room = q_room_make(d, &loss->values, (size_t)loss->values.Z + W + 2 * rows_count);
  struct q_rows rows = {.value = room.more + room.width};
  rows.action = (int32_t *)(void *)(rows.value + rows_count);
  memset(dhead, 0, (size_t)loss->T * loss->N * loss->stride * sizeof(float));
  rows_fill(&rows, &room, loss);
  struct q_totals totals = {.sums = {{0}}};
  float scale = q_scale(loss);
  for (int n = 0; n < loss->N; n += W) {
    int lanes = at_most_lanes(loss->N - n);
    totals.largest = totals.total = totals.count = (vf){0};
    windows_loss((float *)dhead, (float *)td, &totals, &room, &rows, loss, n, lanes, scale);
    vf mean = totals.total / vmax(totals.count, splat(1));
    store_some(priority + n, loss->eta * totals.largest + (1 - loss->eta) * mean, lanes);
  }
  for (int k = 0; k < Q_SUMS; k++) ((float *)sums)[k] = sum_lanes(totals.sums[k]);
}

#endif
