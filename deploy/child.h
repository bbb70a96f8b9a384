/* One child process: the leader of a process group of its own, so that a terminal's Ctrl-C does not
 * reach it and what it starts can be ended with it. It gets a SIGTERM when this process ends, even
 * by kill -9 and however early.
 * Upstream: deploy/supervisor.c, deploy/supervisor_actors.c.
 * Thread: the loop's. */
#ifndef ACORN_DEPLOY_CHILD_H
#define ACORN_DEPLOY_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

enum { CHILD_WORD = 3 };

struct child {
  /* Set by the owner before child_start. */
  char *const *command; /* NULL-terminated; the first word is a path */
  void (*on_end)(struct child *child, int exit_code, int signum);
  void *owner;
  int word; /* a file that it gets as CHILD_WORD; 0: none */

  /* Read-only for the owner. */
  bool alive;
  pid_t pid;

  /* Private; zero before the first start. */
  bool watched;
  uv_signal_t ended; /* SIGCHLD, from the first start to child_close */
};

/* Starts the process with `output` as its stdout and stderr; a negative one: it shares ours. stdin
 * is empty, other files but `word` are closed. on_end is called by the loop when it has ended,
 * after everything in its group has been killed. Returns 0 or a libuv error. */
int child_start(struct child *child, uv_loop_t *loop, int output);

/* Lets the loop end. Must not be alive, and is not started again. */
void child_close(struct child *child);

/* Sends a signal to its whole group; nothing if it has ended. */
void child_signal(const struct child *child, int signum);

/* "was killed by signal 11 (Segmentation fault)"; "was stopped by SIGTERM", for the exit code 143;
 * "ended with exit code 1". */
void child_describe_end(char *text, size_t bytes, int exit_code, int signum);

#endif
