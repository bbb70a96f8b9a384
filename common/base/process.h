/* What every program does first. Upstream: the mains. Thread: one, before any other. */
#ifndef ACORN_COMMON_BASE_PROCESS_H
#define ACORN_COMMON_BASE_PROCESS_H

#include <stdbool.h>

#include "common/base/status.h"

/* The exit code of a run that SIGINT (Ctrl-C) has ended: 128 + SIGINT. */
enum { PROCESS_INTERRUPTED = 130 };

/* Opens /dev/null where stdin, stdout or stderr is closed, so that no socket takes its number and
 * gets what is printed. Ignores SIGPIPE: when the reader of stdout has gone (`| head`), the
 * program continues. Ignores SIGXFSZ: a file that reaches its size limit (ulimit -f) is a failed
 * write, which the writer reports. */
void process_init(void);

/* The last of these alone, for a program whose output goes to a pipe or a file and that ends with
 * its reader. */
void process_ignore_file_limit(void);

/* The work is done and saved: after so many seconds the process ends with `exit_code`, if it has
 * not ended by itself. Libraries may wait at their end for a thread that they could not start. */
void process_end_within(int seconds, int exit_code);

/* Ends the process as SIGINT would have ended it, after all work is done: a shell that waits for it
 * sees 130 and ends its loop, which it would not do for an exit code of 130. */
_Noreturn void process_end_interrupted(void);

/* Flushes stdout. Errors: IO: some of what was printed could not be written, with the reason. */
MUST_CHECK enum status process_flush(struct error *error);

/* Whether SIGINT or SIGHUP was inherited as ignored: nohup ignores SIGHUP, and a shell without job
 * control ignores SIGINT for its background commands. A program that handles signals leaves such a
 * signal ignored. False for every other signal: SIGTERM stops a process however it was started. */
bool process_ignores(int signal_number);

/* How many cores this process may use: those that it was given (taskset, Slurm), and with libuv
 * 1.49 or later no more than a container's share of their time. At least 1. */
int process_cores(void);

/* Bytes of memory that the programs of this machine, container or job may use in all. */
double process_memory(void);

#endif
