/* One child process: the leader of a session of its own, so that a terminal's signals do not reach
 * it and what it starts can be ended with it.
 * Upstream: deploy/supervisor.c. Thread: the loop's. */
#ifndef ACORN_DEPLOY_CHILD_H
#define ACORN_DEPLOY_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct child {
  /* Set by the owner before child_start. */
  char *const *command; /* NULL-terminated; the first word is a path */
  void (*on_end)(struct child *child, int64_t exit_code, int signum);
  void *owner;

  /* Read-only for the owner. */
  bool alive;
  uv_process_t process;
};

/* Starts the process with `output` as its stdout and stderr; a negative one: it shares ours. stdin
 * is empty. on_end is called by the loop when it has ended, after everything in its session has
 * been killed. Returns 0 or a libuv error. */
int child_start(struct child *child, uv_loop_t *loop, int output);

/* Sends a signal to its whole session; nothing if it has ended. */
void child_signal(const struct child *child, int signum);

/* "was killed by signal 11 (Segmentation fault)" or "ended with exit code 1". */
void child_describe_end(char *text, size_t bytes, int64_t exit_code, int signum);

#endif
