/* Mistakes in the words of a run that no program's own table can name.
 * Upstream: deploy/launch.c. Thread: one, at start. */
#ifndef ACORN_DEPLOY_CHECKS_H
#define ACORN_DEPLOY_CHECKS_H

#include "common/base/status.h"
#include "deploy/arguments.h"

/* Errors: INVALID: the agent stands first and the environment second. */
MUST_CHECK enum status checks_order(const struct arguments *words, struct error *error);

/* Errors: INVALID: a --listen=HOST:0, whose port the run's actors would never learn. */
MUST_CHECK enum status checks_listen(const char *listen, struct error *error);

#endif
