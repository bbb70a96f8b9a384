/* What a run folder tells of the run itself: run.json, which program made it, from which options,
 * on which machine, a member of "starts" for each start. Written whole each time.
 *
 * A launcher leaves its own words in a variable, a JSON object (deploy/launch/launch_record.h):
 * they are copied into the start.
 * Upstream: learner/main.c. Thread: main. */
#ifndef ACORN_LEARNER_REPORT_RECORD_H
#define ACORN_LEARNER_REPORT_RECORD_H

#include "learner/run/run.h"

/* Keeps the command line, and takes the launcher's variable out of the environment. Before other
 * threads start. */
void record_init(int argc, char **argv);

/* Appends this start. Errors are logged: the run goes on without. */
void record_start(const struct run *run);

/* The start has ended. */
void record_end(const struct run *run, const char *reason, int exit_code);

#endif
