#include "deploy/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "deploy/child.h"
#include "deploy/probe.h"
#include "deploy/tail.h"

enum {
  PROBE_MS = 20,
  TAIL_LINES = 10,
  EXIT_USAGE = 2,
  EXIT_KILLED = 130,
  NUM_SIGNALS = 3,
  SAME_WISH_MS = 1000
};
enum { OUR_OUTPUT = -1, NO_LOG = -2 };

struct supervisor;

struct actor {
  struct supervisor *supervisor;
  int index;
  struct child child;
  uv_timer_t restart;
  uint64_t death_ms[SUPERVISOR_MAX_DEATHS]; // of the last max_deaths deaths, a ring
  int deaths;
  bool given_up; // it died too often
};

struct supervisor {
  const struct supervisor_config *config;
  uv_loop_t *loop;
  struct child learner;
  struct actor *actors; // (num_actors)
  uv_signal_t signals[NUM_SIGNALS];
  int num_signals;     // handled
  uv_timer_t probe;    // until the learner listens
  uv_timer_t goodbye;  // then the actors are told to stop
  uv_timer_t kill;     // then the actors are killed
  uv_timer_t patience; // then the learner is killed

  bool ready;       // the learner listens
  bool stopping;    // the learner has been told to stop, or has ended
  bool wants_stop;  // asked for, not passed on yet
  uint64_t stop_ms; // when it was asked for
  bool signalled;   // the wish came from outside
  bool killed;      // by a second signal
  bool no_actors;   // all of them were given up
  int exit_code;    // the learner's
};

void supervisor_defaults(struct supervisor_config *config) {
  config->restart_ms = 200;
  config->max_deaths = 5;
  config->death_window_ms = 60 * 1000;
  config->ready_ms = 2000;
  config->goodbye_ms = 3000;
  config->actor_stop_ms = 5000;
  config->learner_stop_ms = 120 * 1000;
}

/* ---- words for people */

static int num_trainers(const struct supervisor *self) {
  return self->config->num_actors - self->config->num_evaluators;
}

// "actor", or "evaluator" for those that come after the actors; its number among its like.
static const char *kind_of(const struct actor *actor) {
  return actor->index < num_trainers(actor->supervisor) ? "actor" : "evaluator";
}

static int number_of(const struct actor *actor) {
  int trainers = num_trainers(actor->supervisor);
  return actor->index < trainers ? actor->index : actor->index - trainers;
}

// The learner's live line may stand on the terminal: what is said here takes its row.
static void clear_live_line(void) {
  if (isatty(STDERR_FILENO) && write(STDERR_FILENO, "\r\033[K", 4) < 0) return;
}

#define say(...) (clear_live_line(), log_info(__VA_ARGS__))
#define say_error(...) (clear_live_line(), log_error(__VA_ARGS__))

static void log_path(char path[PATH_MAX], const struct actor *actor) {
  snprintf(path, PATH_MAX, "%s/%s-%d.log", actor->supervisor->config->log_folder, kind_of(actor),
           number_of(actor));
}

static void show_last_lines(const struct actor *actor) {
  char path[PATH_MAX];
  if (!actor->supervisor->config->log_folder) return; // they have been seen
  log_path(path, actor);
  clear_live_line();
  fprintf(stderr, "---- the last lines of %s\n", path);
  tail_print(stderr, path, TAIL_LINES);
  fprintf(stderr, "----\n");
}

// Why it died, most likely.
static void show_last_line(const struct actor *actor) {
  char path[PATH_MAX];
  if (!actor->supervisor->config->log_folder) return;
  log_path(path, actor);
  tail_print(stderr, path, 1);
}

/* ---- all actors */

static void signal_actors(const struct supervisor *self, int signum) {
  for (int i = 0; i < self->config->num_actors; i++) child_signal(&self->actors[i].child, signum);
}

static bool any_actor_alive(const struct supervisor *self) {
  for (int i = 0; i < self->config->num_actors; i++)
    if (self->actors[i].child.alive) return true;
  return false;
}

/* ---- stopping */

static void close_timer(uv_timer_t *timer) {
  if (!uv_is_closing((uv_handle_t *)timer)) uv_close((uv_handle_t *)timer, NULL);
}

// Lets the loop end once every child has been reaped.
static void close_if_finished(struct supervisor *self) {
  if (self->learner.alive || any_actor_alive(self) || !self->stopping) return;
  close_timer(&self->probe);
  close_timer(&self->goodbye);
  close_timer(&self->kill);
  close_timer(&self->patience);
  child_close(&self->learner);
  for (int i = 0; i < self->config->num_actors; i++) {
    close_timer(&self->actors[i].restart);
    child_close(&self->actors[i].child);
  }
  for (int i = 0; i < self->num_signals; i++)
    if (!uv_is_closing((uv_handle_t *)&self->signals[i]))
      uv_close((uv_handle_t *)&self->signals[i], NULL);
}

static void on_kill_actors(uv_timer_t *timer) {
  const struct supervisor *self = timer->data;
  for (int i = 0; i < self->config->num_actors; i++)
    if (self->actors[i].child.alive)
      say_error("%s %d does not stop; it is killed (does its environment hang?)",
                kind_of(&self->actors[i]), number_of(&self->actors[i]));
  signal_actors(self, SIGKILL);
}

static void stop_actors(struct supervisor *self) {
  uv_timer_stop(&self->goodbye);
  for (int i = 0; i < self->config->num_actors; i++) uv_timer_stop(&self->actors[i].restart);
  signal_actors(self, SIGTERM);
  if (!uv_is_active((uv_handle_t *)&self->kill))
    uv_timer_start(&self->kill, on_kill_actors, (uint64_t)self->config->actor_stop_ms, 0);
}

static void on_goodbye_over(uv_timer_t *timer) {
  stop_actors(timer->data);
}

static void on_out_of_patience(uv_timer_t *timer) {
  const struct supervisor *self = timer->data;
  say_error("the learner has not stopped for %d s; it is killed",
            self->config->learner_stop_ms / 1000);
  child_signal(&self->learner, SIGKILL);
}

// The learner, if there is one, first: it says goodbye to the actors. Those that stay get told
// after a while.
static void pass_on_stop(struct supervisor *self) {
  self->wants_stop = false;
  self->stopping = true;
  child_signal(&self->learner, SIGTERM);
  if (!self->config->learner) {
    stop_actors(self);
    close_if_finished(self);
    return;
  }
  for (int i = 0; i < self->config->num_actors; i++) uv_timer_stop(&self->actors[i].restart);
  uv_timer_start(&self->goodbye, on_goodbye_over, (uint64_t)self->config->goodbye_ms, 0);
  uv_timer_start(&self->patience, on_out_of_patience, (uint64_t)self->config->learner_stop_ms, 0);
}

// A learner that is still starting could not stop in order: on_probe passes the wish on.
static void request_stop(struct supervisor *self) {
  if (self->wants_stop || self->stopping) return;
  self->wants_stop = true;
  self->stop_ms = uv_now(self->loop);
  if (self->ready) pass_on_stop(self);
}

// The first signal stops in order; the next one, or one while the run ends anyway, waits for
// nobody. `timeout` and what stops a service may send theirs twice within a moment.
static void on_signal(uv_signal_t *handle, int signum) {
  struct supervisor *self = handle->data;
  bool just_asked = self->signalled && uv_now(self->loop) - self->stop_ms < SAME_WISH_MS;
  if (just_asked && signum != SIGINT) return;
  if (!self->wants_stop && !self->stopping) {
    say("%s: stopping; once more kills the run", strsignal(signum));
    self->signalled = true;
    request_stop(self);
    return;
  }
  self->killed = self->signalled || self->learner.alive;
  self->stopping = true;
  stop_actors(self);
  child_signal(&self->learner, SIGKILL);
  signal_actors(self, SIGKILL);
}

/* ---- actors */

static void start_actor(struct actor *actor);

static void on_restart(uv_timer_t *timer) {
  start_actor(timer->data);
}

// Whether the last max_deaths deaths, this one included, fell into one window.
static bool died_too_often(struct actor *actor) {
  const struct supervisor_config *config = actor->supervisor->config;
  uint64_t now = uv_now(actor->supervisor->loop);
  if (config->max_deaths == 0) return false;
  actor->death_ms[actor->deaths++ % config->max_deaths] = now;
  if (actor->deaths < config->max_deaths) return false;
  uint64_t oldest = actor->death_ms[actor->deaths % config->max_deaths];
  return now - oldest <= (uint64_t)config->death_window_ms;
}

static void stop_without_actors(struct supervisor *self) {
  for (int i = 0; i < num_trainers(self); i++)
    if (!self->actors[i].given_up) return;
  say_error("no actor is left%s", self->config->learner ? "; stopping the learner" : "");
  self->no_actors = true;
  request_stop(self);
}

static void give_up(struct actor *actor) {
  actor->given_up = true;
  show_last_lines(actor);
  stop_without_actors(actor->supervisor);
}

static void restart_or_give_up(struct actor *actor, const char *how) {
  struct supervisor *self = actor->supervisor;
  if (!died_too_often(actor)) {
    say("%s %d %s; starting it again", kind_of(actor), number_of(actor), how);
    show_last_line(actor);
    uv_timer_start(&actor->restart, on_restart, (uint64_t)self->config->restart_ms, 0);
    return;
  }
  say_error("%s %d %s; that is %d deaths within %d s: not starting it again", kind_of(actor),
            number_of(actor), how, self->config->max_deaths, self->config->death_window_ms / 1000);
  give_up(actor);
}

// A file of its own, or OUR_OUTPUT. NO_LOG: errno says why.
static int open_log(const struct actor *actor) {
  const struct supervisor *self = actor->supervisor;
  if (!self->config->log_folder) return OUR_OUTPUT;
  char path[PATH_MAX];
  log_path(path, actor);
  mkdir(self->config->log_folder, 0777);
  int output = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  return output < 0 ? NO_LOG : output;
}

static void start_actor(struct actor *actor) {
  struct supervisor *self = actor->supervisor;
  char how[128];
  int output = open_log(actor), result = output == NO_LOG ? errno : 0;
  result = result ? uv_translate_sys_error(result) : child_start(&actor->child, self->loop, output);
  if (output >= 0) close(output);
  if (result == 0) return;
  snprintf(how, sizeof(how), "could not start (%s)", uv_strerror(result));
  restart_or_give_up(actor, how);
}

// Without a learner the work is done once the last actor has gone home.
static void finish_without_learner(struct supervisor *self) {
  if (self->config->learner || any_actor_alive(self)) return;
  for (int i = 0; i < self->config->num_actors; i++)
    if (uv_is_active((uv_handle_t *)&self->actors[i].restart)) return;
  self->stopping = true;
}

// One that ends with 0 was sent home.
static void on_actor_end(struct child *child, int exit_code, int signum) {
  struct actor *actor = child->owner;
  struct supervisor *self = actor->supervisor;
  char how[128];
  child_describe_end(how, sizeof(how), exit_code, signum);
  bool died = exit_code != 0 || signum != 0;
  if (exit_code == EXIT_USAGE && !self->stopping) {
    say_error("%s %d refuses its options: not starting it again", kind_of(actor), number_of(actor));
    give_up(actor);
  } else if (died && exit_code == self->config->lost_exit_code && !signum && !self->stopping) {
    say_error("%s %d has found no learner: not starting it again", kind_of(actor),
              number_of(actor));
    give_up(actor);
  } else if (died && !self->stopping) {
    restart_or_give_up(actor, how);
  }
  finish_without_learner(self);
  close_if_finished(self);
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
  if (any_actor_alive(self)) stop_actors(self);
  close_if_finished(self);
}

static void start_actors(struct supervisor *self) {
  for (int i = 0; i < self->config->num_actors; i++) start_actor(&self->actors[i]);
}

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
  start_actors(self);
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
  close_if_finished(self);
}

/* ---- the loop */

static void init_timer(struct supervisor *self, uv_timer_t *timer, void *data) {
  uv_timer_init(self->loop, timer);
  timer->data = data;
}

// nohup's wish is respected.
static bool is_ignored(int signum) {
  struct sigaction action;
  return sigaction(signum, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void watch_signals(struct supervisor *self) {
  static const int signums[NUM_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
  for (int i = 0; i < NUM_SIGNALS; i++) {
    if (signums[i] == SIGHUP && is_ignored(SIGHUP)) continue;
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
  self->learner =
      (struct child){.command = config->learner, .on_end = on_learner_end, .owner = self};
  self->actors = check_alloc((size_t)config->num_actors, sizeof(*self->actors));
  for (int i = 0; i < config->num_actors; i++) {
    struct actor *actor = &self->actors[i];
    *actor = (struct actor){.supervisor = self, .index = i};
    actor->child =
        (struct child){.command = config->actors[i], .on_end = on_actor_end, .owner = actor};
    init_timer(self, &actor->restart, actor);
  }
  init_timer(self, &self->probe, self);
  init_timer(self, &self->goodbye, self);
  init_timer(self, &self->kill, self);
  init_timer(self, &self->patience, self);
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
    start_actors(&self);
  }
  uv_run(self.loop, UV_RUN_DEFAULT);
  int result = uv_loop_close(self.loop);
  CHECK(result == 0, "a handle is still open: %s", uv_strerror(result));
  free(self.actors);
  return exit_code(&self);
}
