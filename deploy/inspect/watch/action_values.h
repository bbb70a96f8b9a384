/* The values of actions in a row of a network's head, on the host, and how an epsilon-greedy policy
 * chooses by them. Upstream: deploy/inspect/watch/chooser.c. Thread: any (no state). */
#ifndef ACORN_DEPLOY_INSPECT_WATCH_ACTION_VALUES_H
#define ACORN_DEPLOY_INSPECT_WATCH_ACTION_VALUES_H

#include "learner/device/device.h"

/* As the operation epsilon_greedy of a device reads them.
 * Shapes: value (A); head: (A*Z), then (Z) if it is dueling. */
void action_values_read(float *value, const float *head, const struct device_action_values *layout);

/* Probability (A) of each action: epsilon / A, and the rest for the first of the largest value. */
void action_values_probability(float *probability, const float *value, int A, float epsilon);

#endif
