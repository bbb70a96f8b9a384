#include "deploy/inspect/watch/action_values.h"

#include "learner/rules/rules.h"

bool action_value_is_masked(float value) {
  return value <= MASKED / 2;
}

void action_values_probability(float *probability, const float *value, int A, float epsilon) {
  int best = 0, allowed = 0;
  for (int a = 1; a < A; a++)
    if (value[a] > value[best]) best = a;
  for (int a = 0; a < A; a++) allowed += !action_value_is_masked(value[a]);
  for (int a = 0; a < A; a++)
    probability[a] = action_value_is_masked(value[a]) ? 0 : epsilon / (float)allowed;
  probability[best] += 1 - epsilon;
}
