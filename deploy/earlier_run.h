/* What a run that plays or continues another one takes over from its folder.
 * Upstream: deploy/launch_plan.c. Thread: one, at start. */
#ifndef ACORN_DEPLOY_EARLIER_RUN_H
#define ACORN_DEPLOY_EARLIER_RUN_H

#include "common/base/status.h"
#include "learner/options.h"

/* Sets what the launcher goes by, where the user has not, to what the run in `folder` has:
 * --env_args, --deterministic and --over. Does nothing if there is none (no config.txt).
 * Errors: MISMATCH: it is a run of another environment or agent; INVALID, IO: its config.txt
 * cannot be read. */
MUST_CHECK enum status earlier_run_take(struct learner_options *options, const char *folder,
                                        struct error *error);

#endif
