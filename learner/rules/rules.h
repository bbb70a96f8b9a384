/* Rules: what one step contributes to a loss, straight arithmetic on its few numbers, written once
 * for all devices. Each has lists of its inputs, outputs, sums and constants, and a body in the
 * dialect of bodies.inc. The operation run_rule of a device (device.h) goes over the steps: it
 * loads the inputs, runs the body, stores the outputs and adds up the sums.
 *
 * Lists: INPUTS_OF_name(X): X(NUMBER, member, REAL or FLOAT), an array of that type;
 * OUTPUTS_OF_name(X): X(NUMBER, member), an array of reals; SUMS_OF_name(X) and
 * CONSTANTS_OF_name(X) likewise. NUMBER becomes its place in struct device_rule; the first of the
 * sums, SUM_STEPS, is the driver's: how many steps count.
 * Upstream: learner/device, learner/learn. Thread: any (constants). */
#ifndef ACORN_LEARNER_RULES_RULES_H
#define ACORN_LEARNER_RULES_RULES_H

#include "learner/rules/actor_critic.rule.h"

#define RULES(X) X(actor_critic)

#define RULE_NUMBER(NUMBER, ...) NUMBER,
#define RULE_PLACES(name)                    \
  enum { INPUTS_OF_##name(RULE_NUMBER) };    \
  enum { OUTPUTS_OF_##name(RULE_NUMBER) };   \
  enum { CONSTANTS_OF_##name(RULE_NUMBER) }; \
  enum { SUM_STEPS_OF_##name, SUMS_OF_##name(RULE_NUMBER) num_sums_of_##name };

RULES(RULE_PLACES)

enum { SUM_STEPS };

#define RULE_NAME(name) RULE_##name,
enum rule { RULES(RULE_NAME) NUM_RULES };

#endif
