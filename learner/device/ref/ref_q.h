/* The reference device's action values: operations epsilon_greedy and q_distance. Part of ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_Q_H
#define ACORN_LEARNER_DEVICE_REF_REF_Q_H

#include "learner/device/ref/ref.h"

/* Of a head's row: the value of action a (Z = 1), or the logit of atom z of its distribution. */
static REAL head_number(const REAL *row, const struct device_action_values *v, int a, int z) {
  REAL number = row[a * v->Z + z], mean = 0;
  if (!v->dueling) return number;
  for (int k = 0; k < v->A; k++) mean += row[k * v->Z + z] / (REAL)v->A;
  return row[v->A * v->Z + z] + number - mean;
}

/* The logarithm of the sum of the exponentials of an action's logits. */
static REAL head_normaliser(const REAL *row, const struct device_action_values *v, int a) {
  REAL largest = head_number(row, v, a, 0), total = 0;
  for (int z = 1; z < v->Z; z++)
    if (head_number(row, v, a, z) > largest) largest = head_number(row, v, a, z);
  for (int z = 0; z < v->Z; z++) total += exp(head_number(row, v, a, z) - largest);
  return largest + log(total);
}

static REAL atom_at(const struct device_action_values *v, int z) {
  return (REAL)v->low + (REAL)z * ((REAL)v->high - (REAL)v->low) / (REAL)(v->Z - 1);
}

static REAL action_value(const REAL *row, const struct device_action_values *v, int a) {
  if (v->Z == 1) return head_number(row, v, a, 0);
  REAL normaliser = head_normaliser(row, v, a), mean = 0;
  for (int z = 0; z < v->Z; z++)
    mean += exp(head_number(row, v, a, z) - normaliser) * atom_at(v, z);
  return mean;
}

/* The largest value of a row and its action, the first of equals; NaN if one of the values is. */
struct best {
  int action;
  REAL value;
};

static struct best best_action(const REAL *row, const struct device_action_values *v) {
  struct best best = {0, action_value(row, v, 0)};
  for (int a = 1; a < v->A; a++) {
    REAL value = action_value(row, v, a);
    if (value > best.value || isnan(value)) best = (struct best){a, value};
  }
  return best;
}

/* In float on every device, so that all draw the same. */
static int random_action(float uniform, float epsilon, int A) {
  int action = (int)(uniform / epsilon * (float)A);
  return action < A ? action : A - 1;
}

static void ref_epsilon_greedy(struct device *d, int32_t *action, float *statistics,
                               const real *head, int stride,
                               const struct device_action_values *values, const float *uniform,
                               const float *epsilon, int B) {
  (void)d;
  for (int b = 0; b < B; b++) {
    const REAL *row = (const REAL *)head + (size_t)b * stride;
    struct best best = best_action(row, values);
    bool random = uniform[b] >= 0 && uniform[b] < epsilon[b];
    action[b] = random ? random_action(uniform[b], epsilon[b], values->A) : best.action;
    statistics[2 * b] = (float)action_value(row, values, action[b]);
    statistics[2 * b + 1] = (float)best.value;
  }
}

static void ref_q_distance(struct device *d, real *distance, const real *head_a, const real *head_b,
                           int stride, const struct device_action_values *values, int B) {
  (void)d;
  double sum = 0;
  for (int b = 0; b < B; b++) {
    const REAL *row_a = (const REAL *)head_a + (size_t)b * stride,
               *row_b = (const REAL *)head_b + (size_t)b * stride;
    REAL squares = 0, total = 0, largest = 0;
    for (int a = 0; a < values->A; a++) {
      REAL q = action_value(row_b, values, a), difference = action_value(row_a, values, a) - q;
      squares += difference * difference;
      total += fabs(q);
      if (fabs(q) > largest) largest = fabs(q);
    }
    sum += total == 0 ? 0 : sqrt(squares) / largest;
  }
  *(REAL *)distance = (REAL)(sum / B);
}

#endif
