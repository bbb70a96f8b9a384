/* A run of the supervisor with shell scripts as learner and actors. The test itself listens where
 * the learner should. Include it in one test. */
#ifndef ACORN_TESTS_SUPERVISOR_SCENARIO_H
#define ACORN_TESTS_SUPERVISOR_SCENARIO_H

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "deploy/launch/supervisor.h"
#include "tests/unit/support/temporary_folder.h"

enum { MAX_ACTORS = 4, PRESSED_AGAIN_US = 150 * 1000 };

static char folder[TEMPORARY_FOLDER_BYTES]; /* of this test; the scripts' working directory */
static char address[128];
static int listener = -1;

struct scenario {
  const char *learner, *actor; /* scripts; no learner: it is elsewhere */
  const char *evaluator;       /* of the last actor, which is an evaluator; NULL: there is none */
  int num_actors;
  bool actors_elsewhere;
  bool logs_are_shown; /* by the supervisor's own output */
  int log_bytes;       /* 0: many */
  int lost_exit_code, stopped_exit_code;
  bool nobody_listens;
  bool several_learners; /* the exit code is 10 x (rank + 1) of a lost one, + 1 if it was silent,
                            + 100 if a signal stopped the others */
  bool ignores_hangup;
  int signal_before_second_run; /* 0: there is one run */
  int signals[2];      /* sent in turn, each once the file `cue` holds something; 0: none */
  bool sent_twice;     /* each of them, so that the second one is there when the first is read */
  const char *cue;     /* NULL: "started" */
  int learner_stop_ms; /* 0: long */
  int home_ms;         /* 0: long */
  int death_window_ms; /* 0: long */
  bool any_deaths;     /* no number of them ends an actor for good; it is started again at once */
  struct {
    int first_ms, longest_ms, reset_ms;
  } pauses; /* first_ms 0: an hour */
};

/* ---- what scripts leave behind */

static inline char *contents(const char *name) {
  return temporary_folder_read(folder, name);
}

static inline int count_of(const char *name, const char *word) {
  int count = 0;
  for (const char *at = contents(name); (at = strstr(at, word)); at += strlen(word)) count++;
  return count;
}

static inline void wait_for_cue(const char *name) {
  for (int i = 0; i < 1000 && !contents(name)[0]; i++) clock_sleep_us(10 * 1000);
  assert_string_not_equal(contents(name), "");
}

/* A zombie does not run: who adopted it may take long to reap it. */
static inline char state_of(pid_t pid) {
  char path[64], state = 'X';
  snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "r");
  if (file && fscanf(file, "%*d %*s %c", &state) != 1) state = 'X';
  if (file) fclose(file);
  return state;
}

static inline bool is_running(pid_t pid) {
  assert_true(pid > 0);
  for (int i = 0; i < 100; i++) {
    if (state_of(pid) == 'X' || state_of(pid) == 'Z') return false;
    clock_sleep_us(10 * 1000);
  }
  return true;
}

/* ---- a run */

static inline void listen_in_folder(void) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  snprintf(name.sun_path, sizeof(name.sun_path), "%s/socket", folder);
  snprintf(address, sizeof(address), "unix:%s", name.sun_path);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
  assert_int_equal(listen(listener, SOMAXCONN), 0);
}

/* In a process of its own, as signals need it. */
static inline int supervise(const struct scenario *scenario) {
  char *learner[] = {"/bin/sh", "-c", (char *)scenario->learner, NULL};
  char *actor[] = {"/bin/sh", "-c", (char *)scenario->actor, NULL};
  char *evaluator[] = {"/bin/sh", "-c", (char *)scenario->evaluator, NULL};
  char *const *actors[MAX_ACTORS] = {actor, actor, actor, actor};
  if (scenario->evaluator) actors[scenario->num_actors - 1] = evaluator;
  enum { HOUR_MS = 3600 * 1000 };
  char logs[128];
  snprintf(logs, sizeof(logs), "%s/logs", folder);
  struct supervisor_config config = {.learner = scenario->learner ? learner : NULL,
                                     .actors = actors,
                                     .num_actors = scenario->num_actors,
                                     .num_evaluators = scenario->evaluator != NULL,
                                     .actors_elsewhere = scenario->actors_elsewhere,
                                     .address = address,
                                     .log_folder = scenario->logs_are_shown ? NULL : logs,
                                     .lost_exit_code = scenario->lost_exit_code,
                                     .stopped_exit_code = scenario->stopped_exit_code};
  supervisor_defaults(&config);
  config.restart_ms = 10;
  config.ready_ms = 600;
  config.stop_grace_ms = 200;
  config.actor_stop_ms = 300;
  if (scenario->learner_stop_ms) config.learner_stop_ms = scenario->learner_stop_ms;
  if (scenario->log_bytes) config.log_bytes = scenario->log_bytes;
  if (scenario->home_ms) config.home_ms = scenario->home_ms;
  if (scenario->death_window_ms) config.death_window_ms = scenario->death_window_ms;
  bool pauses = scenario->pauses.first_ms > 0;
  config.first_pause_ms = pauses ? scenario->pauses.first_ms : HOUR_MS;
  config.longest_pause_ms = pauses ? scenario->pauses.longest_ms : HOUR_MS;
  config.pause_reset_ms = pauses ? scenario->pauses.reset_ms : HOUR_MS;
  if (scenario->any_deaths) config.max_deaths = config.restart_ms = 0;
  if (scenario->ignores_hangup) signal(SIGHUP, SIG_IGN);
  if (chdir(folder) != 0 || dup2(creat("said", 0666), STDERR_FILENO) < 0) return 99;
  struct supervisor_loss loss;
  if (scenario->several_learners) config.loss = &loss;
  int code = supervisor_run(&config);
  if (scenario->signal_before_second_run) {
    raise(scenario->signal_before_second_run);
    code = supervisor_run(&config);
  }
  if (!config.loss || loss.rank < 0) return code;
  return 10 * (loss.rank + 1) + loss.silent + (loss.signum ? 100 : 0);
}

/* To the thread and to the process, as one kind of signal waits once for each. */
static inline void send_twice(pid_t pid, int signum) {
  kill(pid, SIGSTOP);
  while (state_of(pid) != 'T') clock_sleep_us(1000);
  syscall(SYS_tgkill, pid, pid, signum);
  kill(pid, signum);
  kill(pid, SIGCONT);
}

static inline int run(const struct scenario *scenario) {
  if (!scenario->nobody_listens) listen_in_folder();
  pid_t pid = fork();
  if (pid == 0) _exit(supervise(scenario));
  for (int i = 0; i < 2 && scenario->signals[i]; i++) {
    wait_for_cue(i == 0 ? (scenario->cue ? scenario->cue : "started") : "told");
    if (i > 0) clock_sleep_us(PRESSED_AGAIN_US);
    if (scenario->sent_twice)
      send_twice(pid, scenario->signals[i]);
    else
      kill(pid, scenario->signals[i]);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static inline int setup(void **state) {
  (void)state;
  temporary_folder_make(folder);
  snprintf(address, sizeof(address), "unix:/nowhere");
  return 0;
}

static inline int teardown(void **state) {
  (void)state;
  if (listener >= 0) close(listener);
  listener = -1;
  temporary_folder_remove(folder);
  return 0;
}

/* ---- scripts */

#define SLEEPS "sleep 30 & wait"
/* Another learner in a session of its own, as the first one starts them. */
#define STARTS_ANOTHER(script) \
  "setsid sh -c '" script "' & printf '%-14dl\\n' $! >&$ACORN_NOTIFY_FD; "
#define STARTS "echo start >>started; "
/* The notices of common/base/notify.h. */
#define STEPS "printf '%-14ds\\n' $$ >&$ACORN_NOTIFY_FD; "
#define FINISHES "printf '%-14df\\n' $$ >&$ACORN_NOTIFY_FD; exit 0"
#define ENDS_AT_TERM "trap 'echo actor >>told; exit 0' TERM; " STARTS SLEEPS
#define LEARNS_UNTIL_TERM "trap 'echo learner >>told; sleep 0.1; exit 0' TERM INT USR1; " SLEEPS

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#endif
