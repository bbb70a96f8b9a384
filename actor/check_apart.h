/* Runs actor --check_env in a child process: an environment that calls _exit(0) must not pass.
 * Upstream: actor/main.c. Thread: main, before there are others. */
#ifndef ACORN_ACTOR_CHECK_APART_H
#define ACORN_ACTOR_CHECK_APART_H

#include <stdbool.h>

/* Returns in a child process, with the flag that it sets when the check is over. The caller's
 * process waits for the child and exits with its code; with 1 if that is 0 and the flag is not set.
 * Where there is no room for a second process it returns in the first one. `env` is the
 * environment's name, for the error message. */
volatile bool *check_apart(const char *env);

#endif
