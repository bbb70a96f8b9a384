/* The name and spaces of the run's environment: from its own code, or from the first actor.
 * Upstream: run.c, deploy/serve/{model,served}.c. Downstream: envs/registry.h, serve/greeter.h.
 * Thread: main, before any other. */
#ifndef ACORN_LEARNER_RUN_RUN_ENVIRONMENT_H
#define ACORN_LEARNER_RUN_RUN_ENVIRONMENT_H

#include "learner/run/run.h"

/* Fills env_name, label, identity, space and inputs, and sets the options that depend on these (the
 * network). With --env=join it waits for an actor. Errors: INVALID: there is no such environment,
 * it does not take its options, or its actions are continuous; greeter_wait's. */
MUST_CHECK enum status run_find_environment(struct run *run, struct learner_options *options,
                                            struct error *error);

/* The same where space and identity are filled already. Thread: any. Errors: INVALID. */
MUST_CHECK enum status run_take_environment(struct run *run, struct learner_options *options,
                                            struct error *error);

#endif
