/* How an epsilon-greedy policy chooses by values of actions.
 * Upstream: deploy/inspect/watch. Thread: any (no state). */
#ifndef ACORN_DEPLOY_INSPECT_WATCH_ACTION_VALUES_H
#define ACORN_DEPLOY_INSPECT_WATCH_ACTION_VALUES_H

#include <stdbool.h>

/* Whether it stands for an action that may not be chosen. */
bool action_value_is_masked(float value);

/* Probability (A) of each action: epsilon, divided among those that may be chosen, and the rest for
 * the first of the largest value. */
void action_values_probability(float *probability, const float *value, int A, float epsilon);

#endif
