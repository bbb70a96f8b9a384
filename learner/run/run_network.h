/* The network of a run and what it reads, from the options and the space alone.
 * Upstream: run_parts.c, run_environment.c, deploy/python/policy.c. Downstream: learner/network.
 * Thread: any (no state). */
#ifndef ACORN_LEARNER_RUN_RUN_NETWORK_H
#define ACORN_LEARNER_RUN_RUN_NETWORK_H

#include "learner/experience/step_shape.h"
#include "learner/learn/policy.h"
#include "learner/run/options.h"

/* How the network reads a row; all but `stack`, which depends on the network. */
void run_network_inputs(struct device_inputs *inputs, const struct space *space,
                        const struct learner_options *options);

/* Owner: the caller, with network_destroy. Errors: INVALID: --hidden, the atoms, or the network
 * cannot be had so. */
MUST_CHECK enum status run_network_create(struct network **out, const struct device_inputs *inputs,
                                          const struct space *space, const struct policy *policy,
                                          const struct learner_options *options,
                                          struct error *error);
/* The shape of its steps. */
struct step_shape run_network_shape(const struct network *network, const struct space *space,
                                    const struct policy *policy);

#endif
