#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "deploy/child.h"
#include "deploy/supervisor_state.h"

enum { TAIL_LINES = 10, TAIL_BYTES = 16 * 1024, EXIT_USAGE = 2 };
enum { OUR_OUTPUT = -1, NO_LOG = -2 };

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

static void log_path(char path[PATH_MAX], const struct actor *actor) {
  snprintf(path, PATH_MAX, "%s/%s-%d.log", actor->supervisor->config->log_folder, kind_of(actor),
           number_of(actor));
}

// Reads the end of the file; -1 with errno if that fails.
static ssize_t read_end(char *bytes, const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  off_t size = lseek(fd, 0, SEEK_END);
  ssize_t count = pread(fd, bytes, TAIL_BYTES, size > TAIL_BYTES ? size - TAIL_BYTES : 0);
  close(fd);
  return count;
}

void actor_print_tail(FILE *out, const char *path, int lines) {
  char bytes[TAIL_BYTES];
  ssize_t count = read_end(bytes, path);
  if (count < 0) {
    fprintf(out, "(cannot read %s: %s)\n", path, strerror(errno));
    return;
  }
  // Walks back over `lines` line ends, the one of the last line aside.
  ssize_t start = count;
  if (start > 0 && bytes[start - 1] == '\n') start--;
  for (; start > 0; start--)
    if (bytes[start - 1] == '\n' && --lines == 0) break;
  fwrite(bytes + start, 1, (size_t)(count - start), out);
  if (count > start && bytes[count - 1] != '\n') fputc('\n', out);
}

// Prints the last log lines, the likely reason. Without log files the terminal has them already.
static void show_log(const struct actor *actor, int lines) {
  char path[PATH_MAX];
  if (!actor->supervisor->config->log_folder) return;
  log_path(path, actor);
  supervisor_clear_line();
  if (lines > 1) fprintf(stderr, "---- the last lines of %s\n", path);
  actor_print_tail(stderr, path, lines);
  if (lines > 1) fprintf(stderr, "----\n");
}

/* ---- one actor */

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

// Where there are only evaluators, the actors are on other machines.
static void stop_without_actors(struct supervisor *self) {
  if (num_trainers(self) == 0) return;
  for (int i = 0; i < num_trainers(self); i++)
    if (!self->actors[i].given_up) return;
  say_error("no actor is left%s", self->config->learner ? "; stopping the learner" : "");
  self->no_actors = true;
  supervisor_request_stop(self);
}

static void give_up(struct actor *actor) {
  actor->given_up = true;
  show_log(actor, TAIL_LINES);
  stop_without_actors(actor->supervisor);
}

// For how long it has worked since its last start.
static int64_t worked_ms(const struct actor *actor) {
  return actor->stepped_ms ? (int64_t)(uv_now(actor->supervisor->loop) - actor->stepped_ms) : 0;
}

int actor_next_pause_ms(struct actor *actor, const struct supervisor_config *config,
                        int64_t worked_ms) {
  if (worked_ms >= config->pause_reset_ms) actor->deaths_in_a_row = 0;
  if (actor->deaths_in_a_row < INT_MAX) actor->deaths_in_a_row++;
  int64_t pause_ms = config->first_pause_ms;
  for (int i = 1; i < actor->deaths_in_a_row && pause_ms < config->longest_pause_ms; i++)
    pause_ms *= 2;
  return pause_ms < config->longest_pause_ms ? (int)pause_ms : config->longest_pause_ms;
}

// Shows the log of the 1st, 2nd, 4th, 8th ... death in a row, so that one that dies for days does
// not flood the terminal.
static void restart_with_backoff(struct actor *actor, const char *how) {
  int pause_ms = actor_next_pause_ms(actor, actor->supervisor->config, worked_ms(actor));
  say("%s %d %s; starting it again in %g s", kind_of(actor), number_of(actor), how,
      pause_ms / 1000.0);
  if ((actor->deaths_in_a_row & (actor->deaths_in_a_row - 1)) == 0) show_log(actor, TAIL_LINES);
  uv_timer_start(&actor->restart, on_restart, (uint64_t)pause_ms, 0);
}

static void restart_or_give_up(struct actor *actor, const char *how) {
  struct supervisor *self = actor->supervisor;
  if (actor->has_stepped && self->config->max_deaths > 0) {
    restart_with_backoff(actor, how);
    return;
  }
  if (!died_too_often(actor)) {
    say("%s %d %s; starting it again", kind_of(actor), number_of(actor), how);
    show_log(actor, 1);
    uv_timer_start(&actor->restart, on_restart, (uint64_t)self->config->restart_ms, 0);
    return;
  }
  say_error("%s %d %s; that is %d deaths within %d s: not starting it again", kind_of(actor),
            number_of(actor), how, self->config->max_deaths, self->config->death_window_ms / 1000);
  give_up(actor);
}

// A file of its own, or OUR_OUTPUT. NO_LOG: errno has the reason.
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
  actor->finished = false;
  actor->stepped_ms = 0;
  int output = open_log(actor), result = output == NO_LOG ? errno : 0;
  result = result ? uv_translate_sys_error(result) : child_start(&actor->child, self->loop, output);
  if (output >= 0) close(output);
  if (result == 0) return;
  snprintf(how, sizeof(how), "could not start (%s)", uv_strerror(result));
  restart_or_give_up(actor, how);
}

void actors_take_notice(struct supervisor *self, int pid, enum notice notice) {
  for (int i = 0; i < self->config->num_actors; i++) {
    struct actor *actor = &self->actors[i];
    if (actor->child.pid != pid) continue;
    if (notice == NOTICE_FINISHED) actor->finished = true;
    if (notice != NOTICE_STEPPED) continue;
    actor->has_stepped = true;
    if (!actor->stepped_ms) actor->stepped_ms = uv_now(self->loop);
  }
}

// Without a learner the work is done once the last actor has finished.
static void finish_without_learner(struct supervisor *self) {
  if (self->config->learner || actors_any_alive(self)) return;
  for (int i = 0; i < self->config->num_actors; i++)
    if (uv_is_active((uv_handle_t *)&self->actors[i].restart)) return;
  self->stopping = true;
}

// It has finished, but the run is not over. A learner may also take long to exit, so this does not
// count as a death.
static void on_learner_goes_on(uv_timer_t *timer) {
  struct actor *actor = timer->data;
  if (!actor->left_early)
    say("%s %d has gone home (exit code 0), but the learner goes on; starting it again",
        kind_of(actor), number_of(actor));
  actor->left_early = true;
  start_actor(actor);
}

// An actor that finished has sent that notice and exits with 0; the learner, if it runs here, ends
// soon, too.
static void on_actor_end(struct child *child, int exit_code, int signum) {
  struct actor *actor = child->owner;
  struct supervisor *self = actor->supervisor;
  char how[128];
  child_describe_end(how, sizeof(how), exit_code, signum);
  supervisor_read_notices(self);
  bool by_itself = exit_code == 0 && signum == 0 && !actor->finished;
  if (by_itself)
    snprintf(how, sizeof(how), "ended by itself (exit code 0); its environment may call _exit");
  bool died = exit_code != 0 || signum != 0 || by_itself;
  if (exit_code == EXIT_USAGE && !actor->has_stepped && !self->stopping) {
    say_error("%s %d refuses its options: not starting it again", kind_of(actor), number_of(actor));
    give_up(actor);
  } else if (exit_code && exit_code == self->config->lost_exit_code && !self->stopping) {
    say_error("%s %d has found no learner: not starting it again", kind_of(actor),
              number_of(actor));
    give_up(actor);
  } else if (died && !self->stopping) {
    restart_or_give_up(actor, how);
  } else if (self->config->learner && !self->stopping) {
    uv_timer_start(&actor->restart, on_learner_goes_on, (uint64_t)self->config->home_ms, 0);
  }
  finish_without_learner(self);
  supervisor_close_if_finished(self);
}

/* ---- all of them */

void actors_init(struct supervisor *self) {
  const struct supervisor_config *config = self->config;
  self->actors = check_alloc((size_t)config->num_actors, sizeof(*self->actors));
  for (int i = 0; i < config->num_actors; i++) {
    struct actor *actor = &self->actors[i];
    *actor = (struct actor){.supervisor = self, .index = i};
    actor->child = (struct child){.command = config->actors[i],
                                  .on_end = on_actor_end,
                                  .owner = actor,
                                  .word = self->notices[1]};
    uv_timer_init(self->loop, &actor->restart);
    actor->restart.data = actor;
  }
}

void actors_close(struct supervisor *self) {
  for (int i = 0; i < self->config->num_actors; i++) {
    supervisor_close_timer(&self->actors[i].restart);
    child_close(&self->actors[i].child);
  }
}

void actors_start(struct supervisor *self) {
  for (int i = 0; i < self->config->num_actors; i++) start_actor(&self->actors[i]);
}

void actors_signal(const struct supervisor *self, int signum) {
  for (int i = 0; i < self->config->num_actors; i++) child_signal(&self->actors[i].child, signum);
}

bool actors_any_alive(const struct supervisor *self) {
  for (int i = 0; i < self->config->num_actors; i++)
    if (self->actors[i].child.alive) return true;
  return false;
}

void actors_forget_restarts(struct supervisor *self) {
  for (int i = 0; i < self->config->num_actors; i++) uv_timer_stop(&self->actors[i].restart);
}

static void on_kill_actors(uv_timer_t *timer) {
  const struct supervisor *self = timer->data;
  for (int i = 0; i < self->config->num_actors; i++)
    if (self->actors[i].child.alive)
      say_error("%s %d does not stop; it is killed (does its environment hang?)",
                kind_of(&self->actors[i]), number_of(&self->actors[i]));
  actors_signal(self, SIGKILL);
}

void actors_stop(struct supervisor *self) {
  uv_timer_stop(&self->stop_grace);
  actors_forget_restarts(self);
  actors_signal(self, SIGTERM);
  if (!uv_is_active((uv_handle_t *)&self->kill))
    uv_timer_start(&self->kill, on_kill_actors, (uint64_t)self->config->actor_stop_ms, 0);
}
