/* Where the programs are: beside the one that runs.
 * Upstream: deploy/launch.c, deploy/task_plan.c. Thread: any. */
#ifndef ACORN_DEPLOY_PROGRAMS_H
#define ACORN_DEPLOY_PROGRAMS_H

#include <limits.h>

#include "common/base/status.h"

/* Errors: IO: /proc is not there. */
MUST_CHECK enum status programs_folder(char path[PATH_MAX], struct error *error);

#endif
