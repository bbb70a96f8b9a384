/* Action values: operations epsilon_greedy and q_distance, and what q_loss shares with them. Part
 * of cpu_kernels.c. W rows at a time, a lane each, as columns (A, W) of values. A distribution's
 * mean is computed row by row, with vectors along the atoms, and put into its lane. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_Q_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_Q_H

#include <math.h>

#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_columns.h"
#include "learner/device/cpu/cpu_gemm.h"
#include "learner/device/cpu/cpu_math.h"

/* Scratch memory for action values. `width` is Z rounded up to whole vectors. */
struct q_room {
  const struct device_action_values *values;
  int width;
  float *columns;      /* (A, W): values of W rows */
  float *logits;       /* (A, width): of one row; -infinity behind Z */
  float *exponentials; /* (width): of one action's logits less the largest; 0 behind Z */
  float *atoms;        /* (width): 0 behind Z */
  float *more;         /* what else q_room_make was asked for */
};

static float atom_at(const struct device_action_values *v, int z) {
  return v->low + (v->high - v->low) * (float)z / (float)(v->Z - 1);
}

static struct q_room q_room_make(struct device *d, const struct device_action_values *v,
                                 size_t more) {
  int width = (v->Z + W - 1) / W * W;
  float *memory = cpu_scratch(d, SCRATCH_STATE, (size_t)(v->A + 1) * W + (v->A + 2) * width + more);
  struct q_room room = {.values = v, .width = width, .columns = memory};
  room.logits = room.columns + (size_t)v->A * W;
  room.exponentials = room.logits + (size_t)v->A * width;
  room.atoms = room.exponentials + width;
  room.more = room.atoms + width;
  for (int z = 0; z < width; z++) room.atoms[z] = z < v->Z && v->Z > 1 ? atom_at(v, z) : 0;
  return room;
}

/* Lane by lane x where the mask's lane is set (-1), y where it is 0. */
INLINE vf choose(vi mask, vf x, vf y) {
  return select_equal(mask, (vi){0}, y, x);
}

INLINE vi first_of_lanes(int lanes) {
  static const int32_t index[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load_int(index) < lanes;
}

INLINE vf vabs(vf x) {
  return (vf)((vi)x & 0x7fffffff);
}

/* ---- distributions */

/* The logits of one row, by action. */
static void logits_read(const struct q_room *room, const float *row) {
  const struct device_action_values *v = room->values;
  for (int z = 0; z < v->Z; z += W) {
    int lanes = v->Z - z;
    vf offset = {0}; /* value - mean of the advantages */
    if (v->dueling) {
      for (int a = 0; a < v->A; a++) offset -= load_some(row + a * v->Z + z, lanes);
      offset = offset * (1.0f / (float)v->A) + load_some(row + v->A * v->Z + z, lanes);
    }
    for (int a = 0; a < v->A; a++)
      store(room->logits + a * room->width + z,
            choose(first_of_lanes(lanes), load_some(row + a * v->Z + z, lanes) + offset,
                   splat(-INFINITY)));
  }
}

/* Of one action: sum of room->exponentials, and the logarithm of all exponentials' sum. */
struct q_softmax {
  float total, normaliser;
};

static struct q_softmax softmax_along(const struct q_room *room, int action) {
  const float *logits = room->logits + action * room->width;
  vf most = load(logits), sum = {0};
  for (int z = W; z < room->width; z += W) most = vmax(most, load(logits + z));
  float largest = most[0];
  for (int k = 1; k < W; k++) largest = most[k] > largest ? most[k] : largest;
  for (int z = 0; z < room->width; z += W) {
    vf e = vexp(load(logits + z) - largest);
    store(room->exponentials + z, e);
    sum += e;
  }
  float total = sum_lanes(sum);
  return (struct q_softmax){total, largest + logf(total)};
}

static float mean_along(const struct q_room *room, int action) {
  vf sum = {0};
  float total = softmax_along(room, action).total;
  for (int z = 0; z < room->width; z += W)
    sum += load(room->exponentials + z) * load(room->atoms + z);
  return sum_lanes(sum) / total;
}

/* ---- values */

static void means_read(const struct q_room *room, const float *head, int stride, int lanes) {
  int A = room->values->A;
  memset(room->columns, 0, (size_t)A * W * sizeof *room->columns);
  for (int k = 0; k < lanes; k++) {
    logits_read(room, head + (size_t)k * stride);
    for (int a = 0; a < A; a++) room->columns[a * W + k] = mean_along(room, a);
  }
}

/* room->columns of the `lanes` rows from `head` on. */
static void values_read(const struct q_room *room, const float *head, int stride, int lanes) {
  const struct device_action_values *v = room->values;
  if (v->Z > 1) {
    means_read(room, head, stride, lanes);
    return;
  }
  columns_read(room->columns, head, stride, lanes, v->A);
  if (!v->dueling) return;
  vf sum = {0};
  for (int a = 0; a < v->A; a++) sum += load(room->columns + a * W);
  vf offset = load_column(head + v->A, stride, lanes) - sum * (1.0f / (float)v->A);
  for (int a = 0; a < v->A; a++) store(room->columns + a * W, load(room->columns + a * W) + offset);
}

/* The largest value and its action, the first of equals; NaN where one of the values is. */
struct best {
  vf value;
  vi action;
};

INLINE struct best best_of(const float *columns, int A) {
  struct best best = {.value = load(columns), .action = {0}};
  for (int a = 1; a < A; a++) {
    vf value = load(columns + a * W);
    vi better = (value > best.value) | (value != value);
    best.value = choose(better, value, best.value);
    best.action = (better & a) | (~better & best.action);
  }
  return best;
}

/* ---- choice */

static void epsilon_greedy(struct device *d, int32_t *action, float *statistics, const real *head,
                           int stride, const struct device_action_values *v, const float *uniform,
                           const float *epsilon, int B) {
  struct q_room room = q_room_make(d, v, 0);
  for (int b = 0; b < B; b += W) {
    int lanes = at_most_lanes(B - b);
    values_read(&room, (const float *)head + (size_t)b * stride, stride, lanes);
    struct best best = best_of(room.columns, v->A);
    vf u = load_some(uniform + b, lanes), e = load_some(epsilon + b, lanes);
    vi random = (u >= 0) & (u < e);
    vf drawn = vmin(choose(random, u / e * (float)v->A, splat(0)), splat((float)(v->A - 1)));
    vi taken = (random & __builtin_convertvector(drawn, vi)) | (~random & best.action);
    store_int_some(action + b, taken, lanes);
    store_column(statistics + 2 * b, 2, chosen(room.columns, taken, v->A), lanes);
    store_column(statistics + 2 * b + 1, 2, best.value, lanes);
  }
}

/* ---- distance */

/* |q_a - q_b| / max |q_b| of W rows; 0 where q_b is 0. Both (A, W). */
INLINE vf distances(const float *q_a, const float *q_b, int A) {
  vf squares = {0}, total = {0}, largest = {0};
  for (int a = 0; a < A; a++) {
    vf q = load(q_b + a * W), difference = load(q_a + a * W) - q;
    squares += difference * difference;
    total += vabs(q);
    largest = vmax(largest, vabs(q));
  }
  return choose(total == 0, splat(0), vsqrt(squares) / largest);
}

static void q_distance(struct device *d, real *distance, const real *head_a, const real *head_b,
                       int stride, const struct device_action_values *v, int B) {
  struct q_room room = q_room_make(d, v, (size_t)v->A * W);
  vf sum = {0};
  for (int b = 0; b < B; b += W) {
    int lanes = at_most_lanes(B - b);
    values_read(&room, (const float *)head_a + (size_t)b * stride, stride, lanes);
    memcpy(room.more, room.columns, (size_t)v->A * W * sizeof *room.more);
    values_read(&room, (const float *)head_b + (size_t)b * stride, stride, lanes);
    sum += distances(room.more, room.columns, v->A);
  }
  *(float *)distance = sum_lanes(sum) / (float)B;
}

#endif
