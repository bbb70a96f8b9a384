#include "deploy/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/process.h"
#include "deploy/child.h"
#include "common/cluster/probe.h"
#include "deploy/supervisor_state.h"

enum { PROBE_MS = 20, EXIT_KILLED = 130, SAME_WISH_MS = 1000 };

void supervisor_defaults(struct supervisor_config *config) {
  config->first_pause_ms = 1000;
  config->longest_pause_ms = config->pause_reset_ms = 60 * 1000;
  config->restart_ms = 200;
  config->home_ms = 30 * 1000;
  config->max_deaths = 5;
  config->death_window_ms = 60 * 1000;
  config->ready_ms = 2000;
  config->stop_grace_ms = 3000;
  config->actor_stop_ms = 5000;
  config->learner_stop_ms = 120 * 1000;
}

void supervisor_clear_line(void) {
  if (isatty(STDERR_FILENO) && write(STDERR_FILENO, "\r\033[K", 4) < 0) return;
}

/* ---- stopping */

void supervisor_close_timer(uv_timer_t *timer) {
  if (!uv_is_closing((uv_handle_t *)timer)) uv_close((uv_handle_t *)timer, NULL);
}

static void close_notices(struct supervisor *self) {
  if (uv_is_closing((uv_handle_t *)&self->noticed)) return;
  uv_close((uv_handle_t *)&self->noticed, NULL);
  close(self->notices[0]);
  close(self->notices[1]);
}

void supervisor_close_if_finished(struct supervisor *self) {
  if (self->learner.alive || actors_any_alive(self) || !self->stopping) return;
  supervisor_close_timer(&self->probe);
  supervisor_close_timer(&self->stop_grace);
  supervisor_close_timer(&self->kill);
  supervisor_close_timer(&self->patience);
  child_close(&self->learner);
  close_notices(self);
  actors_close(self);
  for (int i = 0; i < self->num_signals; i++)
    if (!uv_is_closing((uv_handle_t *)&self->signals[i]))
      uv_close((uv_handle_t *)&self->signals[i], NULL);
}

static void on_stop_grace_over(uv_timer_t *timer) {
  actors_stop(timer->data);
}

static void on_out_of_patience(uv_timer_t *timer) {
  const struct supervisor *self = timer->data;
  say_error("the learner has not ended for %d s after its run or a stop; it is killed",
            self->config->learner_stop_ms / 1000);
  child_signal(&self->learner, SIGKILL);
}

static void start_patience(struct supervisor *self) {
  uv_timer_start(&self->patience, on_out_of_patience, (uint64_t)self->config->learner_stop_ms, 0);
}

static void limit_learner(struct supervisor *self) {
  if (!uv_is_active((uv_handle_t *)&self->patience)) start_patience(self);
}

// The learner first, if there is one: it ends its actors' streams. Actors that still run after
// stop_grace_ms get a signal.
static void pass_on_stop(struct supervisor *self) {
  self->wants_stop = false;
  self->stopping = true;
  child_signal(&self->learner, SIGTERM);
  if (!self->config->learner) {
    actors_stop(self);
    supervisor_close_if_finished(self);
    return;
  }
  actors_forget_restarts(self);
  uv_timer_start(&self->stop_grace, on_stop_grace_over, (uint64_t)self->config->stop_grace_ms, 0);
  limit_learner(self);
}

// A learner that is still starting could not stop in order: on_probe passes the wish on.
void supervisor_request_stop(struct supervisor *self) {
  if (self->wants_stop || self->stopping) return;
  self->wants_stop = true;
  self->stop_ms = uv_now(self->loop);
  if (self->ready) pass_on_stop(self);
}

// The first signal stops in order; the next one, or one while the run ends anyway, kills at once.
// `timeout` and service managers may send theirs twice within a moment.
static void on_signal(uv_signal_t *handle, int signum) {
  struct supervisor *self = handle->data;
  bool just_asked = self->signalled && uv_now(self->loop) - self->stop_ms < SAME_WISH_MS;
  if (just_asked && signum != SIGINT) return;
  if (!self->wants_stop && !self->stopping) {
    say("%s: stopping; once more kills the run", strsignal(signum));
    self->signalled = true;
    supervisor_request_stop(self);
    return;
  }
  self->killed = self->signalled || self->learner.alive;
  self->stopping = true;
  actors_stop(self);
  child_signal(&self->learner, SIGKILL);
  actors_signal(self, SIGKILL);
}

/* ---- the learner */

static void on_learner_end(struct child *child, int exit_code, int signum) {
  struct supervisor *self = child->owner;
  char how[128];
  child_describe_end(how, sizeof(how), exit_code, signum);
  // A learner that our SIGTERM met before it could handle it has stopped as it was told.
  bool as_told = self->stopping && signum == SIGTERM;
  self->exit_code = as_told ? 0 : signum ? 128 + signum : exit_code;
  if (signum && !as_told && !self->killed) say_error("the learner %s", how);
  self->stopping = true;
  uv_timer_stop(&self->probe);
  uv_timer_stop(&self->patience);
  if (actors_any_alive(self)) actors_stop(self);
  supervisor_close_if_finished(self);
}

/* ---- notices */

// A run that has ended by itself: from now on the learner has as long as after a stop. One that is
// still saving has that long from now.
static void take_notice_of_learner(struct supervisor *self, enum notice notice) {
  if (notice == NOTICE_FINISHED) limit_learner(self);
  if (notice == NOTICE_SAVING && uv_is_active((uv_handle_t *)&self->patience)) start_patience(self);
}

void supervisor_read_notices(struct supervisor *self) {
  char bytes[NOTICE_BYTES];
  while (read(self->notices[0], bytes, sizeof(bytes)) == sizeof(bytes)) {
    int pid;
    enum notice notice = notify_read(&pid, bytes);
    actors_take_notice(self, pid, notice);
    if (self->learner.alive && self->learner.pid == pid) take_notice_of_learner(self, notice);
  }
}

static void on_noticed(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  supervisor_read_notices(poll->data);
}

// Children find the pipe by the variable. It is read at once, so that it is never full.
static void open_notices(struct supervisor *self) {
  char number[16];
  int result = pipe2(self->notices, O_CLOEXEC | O_NONBLOCK);
  CHECK(result == 0, "no pipe: %s", strerror(errno));
  snprintf(number, sizeof(number), "%d", CHILD_WORD);
  setenv(NOTIFY_VARIABLE, number, 1);
  uv_poll_init(self->loop, &self->noticed, self->notices[0]);
  self->noticed.data = self;
  uv_poll_start(&self->noticed, UV_READABLE, on_noticed);
}

/* ---- the learner's start */

// Runs every few milliseconds until the learner listens.
static void on_probe(uv_timer_t *timer) {
  struct supervisor *self = timer->data;
  self->ready = probe_accepts(self->config->address);
  bool out_of_time =
      self->wants_stop && uv_now(self->loop) - self->stop_ms > (uint64_t)self->config->ready_ms;
  if (!self->ready && !out_of_time) return;
  uv_timer_stop(timer);
  if (self->wants_stop) {
    pass_on_stop(self);
    return;
  }
  actors_start(self);
}

static void start_learner(struct supervisor *self) {
  int result = child_start(&self->learner, self->loop, -1);
  if (result == 0) {
    uv_timer_start(&self->probe, on_probe, PROBE_MS, PROBE_MS);
    return;
  }
  say_error("cannot start %s: %s", self->config->learner[0], uv_strerror(result));
  self->stopping = true;
  self->exit_code = 1;
  supervisor_close_if_finished(self);
}

/* ---- the loop */

static void init_timer(struct supervisor *self, uv_timer_t *timer) {
  uv_timer_init(self->loop, timer);
  timer->data = self;
}

static void watch_signals(struct supervisor *self) {
  static const int signums[NUM_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
  for (int i = 0; i < NUM_SIGNALS; i++) {
    if (process_ignores(signums[i])) continue;
    uv_signal_t *handle = &self->signals[self->num_signals++];
    uv_signal_init(self->loop, handle);
    handle->data = self;
    uv_signal_start(handle, on_signal, signums[i]);
  }
  // The learner shows its live line from a background process group; see child.c.
  signal(SIGTTOU, SIG_IGN);
}

static void init(struct supervisor *self, const struct supervisor_config *config) {
  *self = (struct supervisor){.config = config, .loop = uv_default_loop()};
  open_notices(self);
  self->learner = (struct child){.command = config->learner,
                                 .on_end = on_learner_end,
                                 .owner = self,
                                 .word = self->notices[1]};
  actors_init(self);
  init_timer(self, &self->probe);
  init_timer(self, &self->stop_grace);
  init_timer(self, &self->kill);
  init_timer(self, &self->patience);
  watch_signals(self);
}

static int exit_code(const struct supervisor *self) {
  if (self->killed) return EXIT_KILLED;
  if (self->no_actors && self->exit_code == 0) return 1;
  return self->exit_code;
}

int supervisor_run(const struct supervisor_config *config) {
  CHECK(config->max_deaths >= 0 && config->max_deaths <= SUPERVISOR_MAX_DEATHS, "max_deaths=%d",
        config->max_deaths);
  struct supervisor self;
  init(&self, config);
  if (config->learner) {
    start_learner(&self);
  } else {
    self.ready = true; // somewhere else; actors wait for it
    actors_start(&self);
  }
  uv_run(self.loop, UV_RUN_DEFAULT);
  int result = uv_loop_close(self.loop);
  CHECK(result == 0, "a handle is still open: %s", uv_strerror(result));
  free(self.actors);
  return exit_code(&self);
}
