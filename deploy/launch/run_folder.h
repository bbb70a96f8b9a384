/* Which folder a run writes to, when the user does not name one:
 * runs/<env>[-<game>]-<agent>-<YYYYmmdd-HHMMSSZ>[-n], in UTC.
 * Upstream: deploy/launch/launch.c, deploy/launch/plan.c. Thread: one, at start. */
#ifndef ACORN_DEPLOY_LAUNCH_RUN_FOLDER_H
#define ACORN_DEPLOY_LAUNCH_RUN_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "common/base/status.h"

/* Where runs are, from where the user stands. */
#define RUNS_FOLDER "runs"

enum { RUN_LABEL_BYTES = 256 }; /* "atari-Breakout" */

/* Makes the folder of a run that starts at `now`, under `runs`, and writes its path. Runs that
 * start in the same second get -1, -2, ... Errors: IO; INVALID: the path is too long. */
MUST_CHECK enum status run_folder_create(char *path, size_t bytes, const char *runs,
                                         const char *env, const char *agent, time_t now,
                                         struct error *error);

/* The folder of that environment and agent under `runs` that holds a run (a config.txt) and, by its
 * name, was started last; false, and nothing is written, if there is none. `label`: what its name
 * begins with, "atari-Breakout"; NULL: any game of `env`. Names of older runs begin with `env`. The
 * Z may be missing. */
bool run_folder_newest(char *path, size_t bytes, const char *runs, const char *env,
                       const char *label, const char *agent);

#endif
