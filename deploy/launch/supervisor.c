#include "deploy/launch/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/notify.h"
#include "common/base/process.h"
#include "common/cluster/probe.h"
#include "deploy/launch/actor_log.h"
#include "deploy/launch/child.h"

enum { PROBE_MS = 20, EXIT_USAGE = 2, SAME_WISH_MS = 1000, SAME_KEY_MS = 100 };
enum { TAIL_LINES = 10, LOGS_MS = 1000, MOST_OTHERS = 63 };

/* A moment that does not come. */
#define NEVER INT64_MAX

struct actor {
  struct supervisor *supervisor;
  const char *kind; /* "actor"; "evaluator" for those that come after the actors */
  int number;       /* among its like */
  struct actor_log log;
  struct child child;
  int64_t start_ms;                        /* when it is started again */
  int64_t death_ms[SUPERVISOR_MAX_DEATHS]; /* of the last max_deaths deaths, a ring */
  int deaths;
  int deaths_in_a_row; /* without a life of pause_reset_ms between them */
  int64_t stepped_ms;  /* when it stepped first since its last start; 0: not yet */
  bool has_stepped;    /* ever in this run */
  bool finished;       /* it has sent so since its last start: the learner has ended its run */
  bool given_up;       /* it died too often, or is of no use */
  bool left_early;     /* it finished while the learner went on; that has been reported */
  bool log_cut;        /* so has that its log was too long */
};

/* Times are those of clock_now_us, in ms. */
struct supervisor {
  const struct supervisor_config *config;
  struct child learner;
  struct actor *actors;                /* (num_actors) */
  int signals;                         /* a signalfd */
  int notices[2];                      /* a pipe: see common/base/notify.h */
  int others[MOST_OTHERS], num_others; /* pidfds of the learners that the first one has started */

  int64_t now_ms;        /* of this turn of the loop */
  int64_t probe_ms;      /* when to look whether the learner listens */
  int64_t stop_grace_ms; /* then the actors are told to stop */
  int64_t kill_ms;       /* then the actors are killed */
  int64_t patience_ms;   /* after a stop, or the end of the run: then the learner is killed, or the
                            others are not waited for */
  int64_t logs_ms;       /* when to look how long the logs are */

  char shown[ACTOR_LOG_LINE]; /* the error that was shown last (actor_log_error) */
  int shown_lines;            /* how much of the log with it */

  bool ready;      /* the learner listens */
  bool stopping;   /* the learner has been told to stop, or has ended */
  bool wants_stop; /* asked for, not passed on yet */
  int64_t stop_ms; /* when it was asked for */
  int signum;      /* the signal that asked for it; 0: none */
  bool killed;     /* by a second signal */
  bool no_actors;  /* all of them were given up */
  int exit_code;   /* the learner's */
  struct supervisor_loss loss;
};

void supervisor_defaults(struct supervisor_config *config) {
  config->name = "the learner";
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
  config->log_bytes = 8 << 20;
}

/* Whether the moment has come; then it does not come again. */
static bool is_due(const struct supervisor *self, int64_t *moment) {
  if (self->now_ms < *moment) return false;
  *moment = NEVER;
  return true;
}

/* ---- words for people */

/* A line while the learner's live line may stand on the terminal: it takes that row. */
#define say(...) (clear_line(), log_info(__VA_ARGS__))
#define say_error(...) (clear_line(), log_error(__VA_ARGS__))

static void clear_line(void) {
  if (isatty(STDERR_FILENO) && write(STDERR_FILENO, "\r\033[K", 4) < 0) return;
}

static int num_trainers(const struct supervisor *self) {
  return self->config->num_actors - self->config->num_evaluators;
}

// Says how an actor died and what becomes of it, and shows so many lines of its log (0: one, where
// it ends with another error), unless they were shown: an error that actors die of again and again.
static void tell_of_death(const struct actor *actor, int lines, const char *how, const char *then) {
  struct supervisor *self = actor->supervisor;
  char error[ACTOR_LOG_LINE];
  actor_log_error(error, &actor->log);
  bool was_shown = error[0] && strcmp(error, self->shown) == 0 && self->shown_lines >= lines;
  say("%s %d %s%s; starting it again%s", actor->kind, actor->number, how,
      was_shown ? " (its log ends with the error shown above)" : "", then);
  if (was_shown) return;
  if (lines == 0 && error[0]) lines = 1;
  if (lines == 0) return;
  clear_line();
  actor_log_show(&actor->log, lines);
  memcpy(self->shown, error, sizeof(error));
  self->shown_lines = lines;
}

// An environment may print at each step, for days.
static void bound_logs(struct supervisor *self) {
  int most = self->config->log_bytes;
  for (int i = 0; i < self->config->num_actors; i++) {
    struct actor *actor = &self->actors[i];
    if (!actor_log_bound(&actor->log, most) || actor->log_cut) continue;
    actor->log_cut = true;
    say("%s %d prints much: of its log only the newest lines stay, at most %d bytes", actor->kind,
        actor->number, most);
  }
  self->logs_ms = self->now_ms + LOGS_MS;
}

/* ---- all actors */

static bool any_alive(const struct supervisor *self) {
  for (int i = 0; i < self->config->num_actors; i++)
    if (self->actors[i].child.alive) return true;
  return false;
}

static void signal_actors(const struct supervisor *self, int signum) {
  for (int i = 0; i < self->config->num_actors; i++) child_signal(&self->actors[i].child, signum);
}

// Those that have died stay so.
static void forget_restarts(struct supervisor *self) {
  for (int i = 0; i < self->config->num_actors; i++) self->actors[i].start_ms = NEVER;
}

// Those that do not stop are killed after a while.
static void stop_actors(struct supervisor *self) {
  self->stop_grace_ms = NEVER;
  forget_restarts(self);
  signal_actors(self, SIGTERM);
  if (self->kill_ms == NEVER) self->kill_ms = self->now_ms + self->config->actor_stop_ms;
}

static void kill_actors(const struct supervisor *self) {
  for (int i = 0; i < self->config->num_actors; i++)
    if (self->actors[i].child.alive)
      say_error("%s %d does not stop; it is killed (does its environment hang?)",
                self->actors[i].kind, self->actors[i].number);
  signal_actors(self, SIGKILL);
}

/* ---- stopping */

static void limit_learner(struct supervisor *self) {
  if (self->patience_ms == NEVER) self->patience_ms = self->now_ms + self->config->learner_stop_ms;
}

// The last one of those that run; the file of one that does not is closed. -1: there is none.
static int last_other(struct supervisor *self) {
  for (; self->num_others > 0; close(self->others[--self->num_others])) {
    struct pollfd last = {.fd = self->others[self->num_others - 1], .events = POLLIN};
    if (poll(&last, 1, 0) == 0) return last.fd;
  }
  return -1;
}

static void kill_others(const struct supervisor *self) {
  for (int i = 0; i < self->num_others; i++)
    syscall(SYS_pidfd_send_signal, self->others[i], SIGKILL, NULL, 0);
}

// The first one, or, where that has ended, the others.
static void kill_late(const struct supervisor *self) {
  bool runs = self->learner.alive;
  const char *late = runs ? self->config->name : "one of the other learners";
  say_error("%s has not ended for %d s after %s; it is killed", late,
            self->config->learner_stop_ms / 1000,
            runs ? "its run or a stop" : "the end of the first one");
  child_signal(&self->learner, SIGKILL);
  if (!runs) kill_others(self);
}

// The signal that stops the learner: its result names the reason.
static int stop_signal(const struct supervisor *self) {
  return self->no_actors ? SIGUSR1 : self->signum == SIGINT ? SIGINT : SIGTERM;
}

// The learner first, if there is one: it ends its actors' streams. Actors that still run after
// stop_grace_ms get a signal.
static void pass_on_stop(struct supervisor *self) {
  self->wants_stop = false;
  self->stopping = true;
  if (!self->config->learner) {
    stop_actors(self);
    return;
  }
  child_signal(&self->learner, stop_signal(self));
  forget_restarts(self);
  self->stop_grace_ms = self->now_ms + self->config->stop_grace_ms;
  limit_learner(self);
}

// A learner that is still starting could not stop in order: look_for_learner passes the wish on.
static void request_stop(struct supervisor *self) {
  if (self->wants_stop || self->stopping) return;
  self->wants_stop = true;
  self->stop_ms = self->now_ms;
  if (self->ready) pass_on_stop(self);
}

// The first signal stops in order; the next one, or one while the run ends anyway, kills at once.
// `timeout` and service managers may send theirs twice within a moment; a key that is pressed
// again, SIGINT, comes sooner than other wishes, but not at once.
static void take_signal(struct supervisor *self, int signum) {
  int same_ms = signum == SIGINT ? SAME_KEY_MS : SAME_WISH_MS;
  if (self->signum && self->now_ms - self->stop_ms < same_ms) return;
  if (!self->signum && !self->wants_stop && (!self->stopping || self->loss.rank >= 0)) {
    say("%s: stopping; once more ends at once", strsignal(signum));
    self->signum = signum;
    self->stop_ms = self->now_ms;
    request_stop(self);
    return;
  }
  self->killed = self->signum || self->learner.alive;
  self->stopping = true;
  stop_actors(self);
  child_signal(&self->learner, SIGKILL);
  kill_others(self);
  signal_actors(self, SIGKILL);
}

/* ---- notices */

// A run that has ended by itself: from now on the learner has as long as after a stop. One that is
// still saving has that long from now.
static void take_notice_of_learner(struct supervisor *self, enum notice notice) {
  if (notice == NOTICE_FINISHED) limit_learner(self);
  if (notice == NOTICE_SAVING && self->patience_ms != NEVER)
    self->patience_ms = self->now_ms + self->config->learner_stop_ms;
}

static void take_notice_of_actors(struct supervisor *self, int pid, enum notice notice) {
  for (int i = 0; i < self->config->num_actors; i++) {
    struct actor *actor = &self->actors[i];
    if (actor->child.pid != pid) continue;
    if (notice == NOTICE_FINISHED) actor->finished = true;
    if (notice != NOTICE_STEPPED) continue;
    actor->has_stepped = true;
    if (!actor->stepped_ms) actor->stepped_ms = self->now_ms;
  }
}

// The first one. The learners that are left end by themselves. After a stop the exit code of the
// first one tells how it went, unless that is the one.
static void take_loss(struct supervisor *self, int rank, bool silent) {
  if (self->loss.rank >= 0 || (self->stop_ms && !(rank == 0 && silent))) return;
  self->loss = (struct supervisor_loss){.rank = rank, .silent = silent};
  forget_restarts(self);
  limit_learner(self); // it may be the one that is not known
  if (rank == 0 && silent) child_signal(&self->learner, SIGKILL);
}

static void take_other(struct supervisor *self, int process) {
  int file = self->num_others < MOST_OTHERS ? (int)syscall(SYS_pidfd_open, process, 0) : -1;
  if (file >= 0) self->others[self->num_others++] = file;
}

static void read_notices(struct supervisor *self) {
  char bytes[NOTICE_BYTES];
  while (read(self->notices[0], bytes, sizeof(bytes)) == sizeof(bytes)) {
    int number;
    enum notice notice = notify_read(&number, bytes);
    if (notice == NOTICE_LEARNER_ENDED || notice == NOTICE_LEARNER_SILENT) {
      take_loss(self, number - 1, notice == NOTICE_LEARNER_SILENT);
      continue;
    }
    if (notice == NOTICE_STARTED) take_other(self, number);
    take_notice_of_actors(self, number, notice);
    if (self->learner.alive && self->learner.pid == number) take_notice_of_learner(self, notice);
  }
}

// Children find the pipe by the variable. It is read at once, so that it is never full.
static void open_notices(struct supervisor *self) {
  char number[16];
  int result = pipe2(self->notices, O_CLOEXEC | O_NONBLOCK);
  CHECK(result == 0, "no pipe: %s", strerror(errno));
  snprintf(number, sizeof(number), "%d", CHILD_WORD);
  setenv(NOTIFY_VARIABLE, number, 1);
}

/* ---- an actor's deaths */

// Whether the last max_deaths deaths, this one included, fell into one window.
static bool died_too_often(struct actor *actor) {
  const struct supervisor *self = actor->supervisor;
  const struct supervisor_config *config = self->config;
  if (config->max_deaths == 0) return false;
  actor->death_ms[actor->deaths++ % config->max_deaths] = self->now_ms;
  if (actor->deaths < config->max_deaths) return false;
  return self->now_ms - actor->death_ms[actor->deaths % config->max_deaths] <=
         config->death_window_ms;
}

// Where there are only evaluators, the actors are on other machines.
static void stop_without_actors(struct supervisor *self) {
  if (num_trainers(self) == 0) return;
  for (int i = 0; i < num_trainers(self); i++)
    if (!self->actors[i].given_up) return;
  if (self->config->actors_elsewhere) {
    say_error("no actor is left here; the learner goes on with those of other hosts");
    return;
  }
  say_error("no actor is left%s", self->config->learner ? "; stopping the learner" : "");
  self->no_actors = true;
  request_stop(self);
}

static void give_up(struct actor *actor) {
  actor->given_up = true;
  clear_line();
  actor_log_show(&actor->log, TAIL_LINES);
  stop_without_actors(actor->supervisor);
}

int supervisor_pause_ms(int *deaths_in_a_row, const struct supervisor_config *config,
                        int64_t worked_ms) {
  if (worked_ms >= config->pause_reset_ms) *deaths_in_a_row = 0;
  if (*deaths_in_a_row < INT_MAX) ++*deaths_in_a_row;
  int64_t pause_ms = config->first_pause_ms;
  for (int i = 1; i < *deaths_in_a_row && pause_ms < config->longest_pause_ms; i++) pause_ms *= 2;
  return pause_ms < config->longest_pause_ms ? (int)pause_ms : config->longest_pause_ms;
}

// Shows the log of the 1st, 2nd, 4th, 8th ... death in a row, and otherwise a line of what is new
// in it, so that one that dies for days does not flood the terminal.
static void restart_with_backoff(struct actor *actor, const char *how) {
  const struct supervisor *self = actor->supervisor;
  int64_t worked_ms = actor->stepped_ms ? self->now_ms - actor->stepped_ms : 0;
  int pause_ms = supervisor_pause_ms(&actor->deaths_in_a_row, self->config, worked_ms);
  bool is_power = (actor->deaths_in_a_row & (actor->deaths_in_a_row - 1)) == 0;
  char pause[32];
  snprintf(pause, sizeof(pause), " in %g s", pause_ms / 1000.0);
  tell_of_death(actor, is_power ? TAIL_LINES : 0, how, pause);
  actor->start_ms = self->now_ms + pause_ms;
}

static void restart_or_give_up(struct actor *actor, const char *how) {
  const struct supervisor *self = actor->supervisor;
  actor->finished = false;
  if (actor->has_stepped && self->config->max_deaths > 0) {
    restart_with_backoff(actor, how);
    return;
  }
  if (!died_too_often(actor)) {
    tell_of_death(actor, 1, how, "");
    actor->start_ms = self->now_ms + self->config->restart_ms;
    return;
  }
  say_error("%s %d %s; that is %d deaths within %d s: not starting it again", actor->kind,
            actor->number, how, self->config->max_deaths, self->config->death_window_ms / 1000);
  give_up(actor);
}

/* ---- an actor's starts and ends */

static void start_actor(struct actor *actor) {
  char how[128];
  actor->finished = false;
  actor->stepped_ms = 0;
  int output = actor_log_open(&actor->log);
  int reason = output == ACTOR_LOG_FAILED ? errno : child_start(&actor->child, output);
  if (output >= 0) close(output);
  if (reason == 0) return;
  snprintf(how, sizeof(how), "could not start (%s)", strerror(reason));
  restart_or_give_up(actor, how);
}

static void start_actors(struct supervisor *self) {
  for (int i = 0; i < self->config->num_actors; i++) start_actor(&self->actors[i]);
}

// It has finished, but the run is not over. A learner may also take long to end, so this is no
// death.
static void tell_that_learner_goes_on(struct actor *actor) {
  if (!actor->left_early)
    say("%s %d has gone home (exit code 0), but the learner goes on; starting it again",
        actor->kind, actor->number);
  actor->left_early = true;
}

// One that finished has sent so and ends with 0; the learner, if it is here, ends soon, too.
static void on_actor_end(struct actor *actor, int exit_code, int signum) {
  struct supervisor *self = actor->supervisor;
  char how[128];
  if (self->stopping || self->loss.rank >= 0) return;
  child_describe_end(how, sizeof(how), exit_code, signum);
  bool by_itself = exit_code == 0 && signum == 0 && !actor->finished;
  if (by_itself)
    snprintf(how, sizeof(how), "ended by itself (exit code 0); its environment may call _exit");
  if (exit_code == EXIT_USAGE && !actor->has_stepped) {
    say_error("%s %d refuses its options: not starting it again", actor->kind, actor->number);
    give_up(actor);
  } else if (exit_code && exit_code == self->config->lost_exit_code) {
    say_error("%s %d got no lease from a learner within --reconnect_s: it is not started again",
              actor->kind, actor->number);
    give_up(actor);
  } else if (exit_code || signum || by_itself) {
    restart_or_give_up(actor, how);
  } else if (self->config->learner) {
    actor->start_ms = self->now_ms + self->config->home_ms;
  }
}

// Without a learner the work is done once the last actor has finished.
static bool all_have_finished(const struct supervisor *self) {
  if (self->config->learner || any_alive(self)) return false;
  for (int i = 0; i < self->config->num_actors; i++)
    if (self->actors[i].start_ms != NEVER) return false;
  return true;
}

/* ---- the learner */

static void on_learner_end(struct supervisor *self, int exit_code, int signum) {
  char how[128];
  read_notices(self);
  child_describe_end(how, sizeof(how), exit_code, signum);
  // A learner that our signal met before it could handle it has stopped as it was told.
  bool as_told = self->stopping && signum == stop_signal(self);
  bool silent = self->loss.rank == 0 && self->loss.silent;
  self->exit_code = as_told ? 0 : silent ? 1 : signum ? 128 + signum : exit_code;
  if (signum && !as_told && !self->killed && !silent) {
    say_error("%s %s", self->config->name, how);
    take_loss(self, 0, false);
  }
  self->stopping = true;
  self->probe_ms = self->patience_ms = NEVER;
  if (self->num_others > 0) limit_learner(self);
  stop_actors(self);
}

// Every few milliseconds until the learner listens.
static void look_for_learner(struct supervisor *self) {
  self->ready = probe_accepts(self->config->address);
  bool out_of_time = self->wants_stop && self->now_ms - self->stop_ms > self->config->ready_ms;
  if (!self->ready && !out_of_time)
    self->probe_ms = self->now_ms + PROBE_MS;
  else if (self->wants_stop)
    pass_on_stop(self);
  else
    start_actors(self);
}

static void start_learner(struct supervisor *self) {
  int reason = child_start(&self->learner, -1);
  self->probe_ms = self->now_ms + PROBE_MS;
  if (reason == 0) return;
  say_error("cannot start %s: %s", self->config->learner[0], strerror(reason));
  self->stopping = true;
  self->exit_code = 1;
}

/* ---- the loop */

void supervisor_hold_signals(sigset_t *held) {
  static const int signums[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
  signal(SIGCHLD, SIG_DFL); // one that is ignored is not sent
  sigemptyset(held);
  for (size_t i = 0; i < sizeof(signums) / sizeof(*signums); i++)
    if (!process_ignores(signums[i])) sigaddset(held, signums[i]);
  sigprocmask(SIG_BLOCK, held, NULL);
}

static void watch_signals(struct supervisor *self) {
  sigset_t watched;
  supervisor_hold_signals(&watched);
  self->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  CHECK(self->signals >= 0, "no signalfd: %s", strerror(errno));
  // The learner shows its live line from a background process group; see child.c.
  signal(SIGTTOU, SIG_IGN);
}

static bool is_child(const struct supervisor *self, pid_t pid) {
  bool found = self->learner.alive && self->learner.pid == pid;
  for (int i = 0; i < self->config->num_actors && !found; i++)
    found = self->actors[i].child.alive && self->actors[i].child.pid == pid;
  return found;
}

// As process 1 of a container it gets those whose parents have ended, an environment's among them.
static void reap_orphans(const struct supervisor *self) {
  siginfo_t ended = {0};
  while (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid > 0) {
    if (is_child(self, ended.si_pid)) return; // its signal is on its way
    waitpid(ended.si_pid, NULL, 0);
    ended.si_pid = 0;
  }
}

// What a child has sent before its end is taken first.
static void reap(struct supervisor *self) {
  int exit_code, signum;
  if (child_has_ended(&self->learner, &exit_code, &signum)) on_learner_end(self, exit_code, signum);
  for (int i = 0; i < self->config->num_actors; i++) {
    struct actor *actor = &self->actors[i];
    if (!child_has_ended(&actor->child, &exit_code, &signum)) continue;
    read_notices(self);
    on_actor_end(actor, exit_code, signum);
  }
  if (getpid() == 1) reap_orphans(self);
}

static void read_signals(struct supervisor *self) {
  struct signalfd_siginfo info;
  while (read(self->signals, &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGCHLD)
      reap(self);
    else
      take_signal(self, (int)info.ssi_signo);
  }
}

static bool is_over(struct supervisor *self) {
  return self->stopping && !self->learner.alive && !any_alive(self) && last_other(self) < 0;
}

static void do_what_is_due(struct supervisor *self) {
  if (is_due(self, &self->probe_ms)) look_for_learner(self);
  if (is_due(self, &self->stop_grace_ms)) stop_actors(self);
  if (is_due(self, &self->kill_ms)) kill_actors(self);
  if (is_due(self, &self->patience_ms)) kill_late(self);
  if (is_due(self, &self->logs_ms)) bound_logs(self);
  for (int i = 0; i < self->config->num_actors; i++) {
    struct actor *actor = &self->actors[i];
    if (!is_due(self, &actor->start_ms)) continue;
    if (actor->finished) tell_that_learner_goes_on(actor);
    start_actor(actor);
  }
  // Also the last one that could not be started.
  if (all_have_finished(self)) self->stopping = true;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// Until the next moment, for poll.
static int wait_ms(const struct supervisor *self) {
  int64_t next = least(least(self->probe_ms, self->stop_grace_ms),
                       least(least(self->kill_ms, self->patience_ms), self->logs_ms));
  for (int i = 0; i < self->config->num_actors; i++) next = least(next, self->actors[i].start_ms);
  if (next == NEVER) return -1;
  return next > self->now_ms ? (int)least(next - self->now_ms, INT_MAX) : 0;
}

static void run_loop(struct supervisor *self) {
  while (!is_over(self)) {
    struct pollfd watched[] = {{.fd = self->signals, .events = POLLIN},
                               {.fd = self->notices[0], .events = POLLIN},
                               {.fd = last_other(self), .events = POLLIN}};
    poll(watched, 3, wait_ms(self));
    self->now_ms = clock_now_us() / 1000;
    read_notices(self);
    read_signals(self);
    if (!is_over(self)) do_what_is_due(self);
  }
}

static void init_actors(struct supervisor *self) {
  const struct supervisor_config *config = self->config;
  int trainers = num_trainers(self);
  self->actors = check_alloc((size_t)config->num_actors, sizeof(*self->actors));
  for (int i = 0; i < config->num_actors; i++) {
    struct actor *actor = &self->actors[i];
    *actor = (struct actor){.supervisor = self,
                            .kind = i < trainers ? "actor" : "evaluator",
                            .number = i < trainers ? i : i - trainers,
                            .child = {.command = config->actors[i], .word = self->notices[1]},
                            .start_ms = NEVER};
    actor_log_init(&actor->log, config->log_folder, actor->kind, actor->number);
  }
}

static int exit_code(const struct supervisor *self) {
  if (self->killed) return PROCESS_INTERRUPTED;
  if (self->no_actors && self->exit_code == 0) return 1;
  if (!self->signum || self->exit_code) return self->exit_code;
  return self->signum == SIGINT ? PROCESS_INTERRUPTED : self->config->stopped_exit_code;
}

int supervisor_run(const struct supervisor_config *config) {
  CHECK(config->max_deaths >= 0 && config->max_deaths <= SUPERVISOR_MAX_DEATHS, "max_deaths=%d",
        config->max_deaths);
  struct supervisor self = {.config = config,
                            .loss = {.rank = -1},
                            .now_ms = clock_now_us() / 1000,
                            .probe_ms = NEVER,
                            .stop_grace_ms = NEVER,
                            .kill_ms = NEVER,
                            .patience_ms = NEVER,
                            .logs_ms = config->log_folder ? 0 : NEVER};
  open_notices(&self);
  self.learner = (struct child){.command = config->learner, .word = self.notices[1]};
  init_actors(&self);
  watch_signals(&self);
  if (config->learner) {
    start_learner(&self);
  } else {
    self.ready = true; // somewhere else; actors wait for it
    start_actors(&self);
  }
  run_loop(&self);
  if (config->log_folder) bound_logs(&self);
  close(self.signals);
  close(self.notices[0]);
  close(self.notices[1]);
  free(self.actors);
  if (self.killed || self.no_actors || !self.ready) self.loss.rank = -1;
  self.loss.signum = self.signum;
  if (config->loss) *config->loss = self.loss;
  return exit_code(&self);
}
