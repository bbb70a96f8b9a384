#include "deploy/inspect/watch/action_values.h"

#include <math.h>

/* The number of atom z of an action, a logit if there are several. */
static float output(const float *head, const struct device_action_values *layout, int action,
                    int z) {
  int A = layout->A, Z = layout->Z;
  float mean = 0;
  if (!layout->dueling) return head[action * Z + z];
  for (int a = 0; a < A; a++) mean += head[a * Z + z] / (float)A;
  return head[action * Z + z] - mean + head[A * Z + z];
}

/* The mean of the distribution over the atoms. */
static float distribution_mean(const float *head, const struct device_action_values *layout,
                               int action) {
  float largest = -INFINITY, total = 0, sum = 0;
  for (int z = 0; z < layout->Z; z++) largest = fmaxf(largest, output(head, layout, action, z));
  for (int z = 0; z < layout->Z; z++) {
    float atom = layout->low + (layout->high - layout->low) * (float)z / (float)(layout->Z - 1);
    float weight = expf(output(head, layout, action, z) - largest);
    total += weight;
    sum += weight * atom;
  }
  return sum / total;
}

void action_values_read(float *value, const float *head,
                        const struct device_action_values *layout) {
  for (int a = 0; a < layout->A; a++)
    value[a] = layout->Z > 1 ? distribution_mean(head, layout, a) : output(head, layout, a, 0);
}

void action_values_probability(float *probability, const float *value, int A, float epsilon) {
  int best = 0;
  for (int a = 1; a < A; a++)
    if (value[a] > value[best]) best = a;
  for (int a = 0; a < A; a++) probability[a] = epsilon / (float)A;
  probability[best] += 1 - epsilon;
}
