/* Mistakes in the words of a run that no program's own table can name.
 * Upstream: deploy/launch_plan.c. Thread: one, at start. */
#ifndef ACORN_DEPLOY_CHECKS_H
#define ACORN_DEPLOY_CHECKS_H

#include "common/base/status.h"
#include "actor/options.h"
#include "deploy/arguments.h"
#include "learner/options.h"

/* Errors: INVALID: the agent stands first and the environment second. */
MUST_CHECK enum status checks_order(const struct arguments *words, struct error *error);

/* Adds ENV (`env`: as the programs shall see it) and AGENT to the learner's words and reads both
 * lists, as the programs' own tables will. Errors: INVALID. */
MUST_CHECK enum status checks_options(struct arguments *arguments, const char *env,
                                      struct learner_options *learner, struct actor_options *actor,
                                      struct error *error);

/* Errors: INVALID: a --listen=HOST:0, whose port the run's actors would never learn. */
MUST_CHECK enum status checks_listen(const char *listen, struct error *error);

#endif
