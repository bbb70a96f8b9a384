/* Runs a command after the run, the learning curve's, whose failure does not matter.
 * Its stdout goes to stderr, so that the run's last line stays the last; it is ended after 30 s,
 * and by a signal.
 * Upstream: deploy/launch.c. Thread: one; runs a libuv loop of its own. */
#ifndef ACORN_INSPECT_RUN_H
#define ACORN_INSPECT_RUN_H

/* Runs `command` (NULL-terminated, the first word is a path) and returns once it has ended. */
void after_run(char *const *command);

#endif
