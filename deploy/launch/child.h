/* One child process: the leader of a process group of its own, so that a terminal's Ctrl-C does not
 * reach it and what it starts can be ended with it. It gets a SIGTERM when this process ends, even
 * by kill -9 and however early.
 * Upstream: deploy/launch/supervisor.c. Thread: one. */
#ifndef ACORN_DEPLOY_LAUNCH_CHILD_H
#define ACORN_DEPLOY_LAUNCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { CHILD_WORD = 3 };

struct child {
  /* Set by the owner before child_start. */
  char *const *command; /* NULL-terminated; the first word is a path */
  int word;             /* a file that it gets as CHILD_WORD; 0: none */

  /* Read-only for the owner. */
  bool alive;
  pid_t pid;
};

/* Starts the process with `output` as its stdout and stderr; a negative one: it shares ours. stdin
 * is empty, other files but `word` are closed. Returns 0 or errno. */
int child_start(struct child *child, int output);

/* True once it has ended: how, and everything in its group has been killed. A SIGCHLD tells when to
 * look. */
bool child_has_ended(struct child *child, int *exit_code, int *signum);

/* Sends a signal to its whole group; nothing if it has ended. */
void child_signal(const struct child *child, int signum);

/* "was killed by signal 11 (Segmentation fault)"; "was stopped by SIGTERM", for the exit code 143;
 * "ended with exit code 1". */
void child_describe_end(char *text, size_t bytes, int exit_code, int signum);

#endif
