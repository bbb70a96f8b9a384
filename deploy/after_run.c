#include "deploy/after_run.h"

#include <signal.h>
#include <unistd.h>
#include <uv.h>

#include "common/base/log.h"
#include "common/base/process.h"
#include "deploy/child.h"

enum { LIMIT_MS = 30 * 1000, NUM_SIGNALS = 3 };

struct follower {
  struct child child;
  uv_timer_t limit;
  uv_signal_t signals[NUM_SIGNALS];
  int num_signals; /* handled */
};

static void close_all(struct follower *self) {
  child_close(&self->child);
  uv_close((uv_handle_t *)&self->limit, NULL);
  for (int i = 0; i < self->num_signals; i++) uv_close((uv_handle_t *)&self->signals[i], NULL);
}

static void on_end(struct child *child, int exit_code, int signum) {
  (void)exit_code, (void)signum;
  close_all(child->owner);
}

static void on_limit(uv_timer_t *timer) {
  struct follower *self = timer->data;
  log_warn("%s takes too long: it is ended", self->child.command[0]);
  child_signal(&self->child, SIGKILL);
}

static void on_signal(uv_signal_t *handle, int signum) {
  struct follower *self = handle->data;
  (void)signum;
  child_signal(&self->child, SIGKILL);
}

void after_run(char *const *command) {
  static const int signums[NUM_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
  uv_loop_t loop;
  uv_loop_init(&loop);
  struct follower self = {.child = {.command = command, .on_end = on_end, .owner = &self}};
  uv_timer_init(&loop, &self.limit);
  self.limit.data = &self;
  uv_timer_start(&self.limit, on_limit, LIMIT_MS, 0);
  for (int i = 0; i < NUM_SIGNALS; i++) {
    if (process_ignores(signums[i])) continue;
    uv_signal_t *handle = &self.signals[self.num_signals++];
    uv_signal_init(&loop, handle);
    handle->data = &self;
    uv_signal_start(handle, on_signal, signums[i]);
  }
  int result = child_start(&self.child, &loop, STDERR_FILENO);
  if (result != 0) {
    log_warn("cannot start %s: %s", command[0], uv_strerror(result));
    close_all(&self);
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_loop_close(&loop);
}
