// The supervisor with shell scripts as learner and actors. The test itself listens where the
// learner should.
#include <errno.h>
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
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "deploy/supervisor.h"

enum { MAX_ACTORS = 4, FILE_BYTES = 8192 };

static char folder[64]; // of this test; the scripts' working directory
static char address[128];
static int listener = -1;

struct scenario {
  const char *learner, *actor; // scripts; no learner: it is elsewhere
  const char *evaluator;       // of the last actor, which is an evaluator; NULL: there is none
  int num_actors;
  bool logs_are_shown; // by the supervisor's own output
  int lost_exit_code;
  bool nobody_listens;
  bool ignores_hangup;
  int signals[2];      // sent in turn, each once the file `cue` holds something; 0: none
  const char *cue;     // NULL: "started"
  int learner_stop_ms; // 0: long
  int death_window_ms; // 0: long
  bool any_deaths;     // no number of them ends an actor for good; it is started again at once
};

// ---- what scripts leave behind

static char *contents(const char *name) {
  static char text[FILE_BYTES];
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  size_t count = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
  text[count] = '\0';
  if (file) fclose(file);
  return text;
}

static int count_of(const char *name, const char *word) {
  int count = 0;
  for (const char *at = contents(name); (at = strstr(at, word)); at += strlen(word)) count++;
  return count;
}

static void wait_for_cue(const char *name) {
  for (int i = 0; i < 1000 && !contents(name)[0]; i++) clock_sleep_us(10 * 1000);
  assert_string_not_equal(contents(name), "");
}

// A zombie does not run: who adopted it may take long to reap it.
static char state_of(pid_t pid) {
  char path[64], state = 'X';
  snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "r");
  if (file && fscanf(file, "%*d %*s %c", &state) != 1) state = 'X';
  if (file) fclose(file);
  return state;
}

static bool is_running(pid_t pid) {
  assert_true(pid > 0);
  for (int i = 0; i < 100; i++) {
    if (state_of(pid) == 'X' || state_of(pid) == 'Z') return false;
    clock_sleep_us(10 * 1000);
  }
  return true;
}

// ---- a run

static void listen_in_folder(void) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  snprintf(name.sun_path, sizeof(name.sun_path), "%s/socket", folder);
  snprintf(address, sizeof(address), "unix:%s", name.sun_path);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
  assert_int_equal(listen(listener, SOMAXCONN), 0);
}

// In a process of its own, as signals need it.
static int supervise(const struct scenario *scenario) {
  char *learner[] = {"/bin/sh", "-c", (char *)scenario->learner, NULL};
  char *actor[] = {"/bin/sh", "-c", (char *)scenario->actor, NULL};
  char *evaluator[] = {"/bin/sh", "-c", (char *)scenario->evaluator, NULL};
  char *const *actors[MAX_ACTORS] = {actor, actor, actor, actor};
  if (scenario->evaluator) actors[scenario->num_actors - 1] = evaluator;
  char logs[128];
  snprintf(logs, sizeof(logs), "%s/logs", folder);
  struct supervisor_config config = {.learner = scenario->learner ? learner : NULL,
                                     .actors = actors,
                                     .num_actors = scenario->num_actors,
                                     .num_evaluators = scenario->evaluator != NULL,
                                     .address = address,
                                     .log_folder = scenario->logs_are_shown ? NULL : logs,
                                     .lost_exit_code = scenario->lost_exit_code};
  supervisor_defaults(&config);
  config.restart_ms = 10;
  config.ready_ms = 600;
  config.goodbye_ms = 200;
  config.actor_stop_ms = 300;
  if (scenario->learner_stop_ms) config.learner_stop_ms = scenario->learner_stop_ms;
  if (scenario->death_window_ms) config.death_window_ms = scenario->death_window_ms;
  if (scenario->any_deaths) config.max_deaths = config.restart_ms = 0;
  if (scenario->ignores_hangup) signal(SIGHUP, SIG_IGN);
  if (chdir(folder) != 0 || dup2(creat("said", 0666), STDERR_FILENO) < 0) return 99;
  return supervisor_run(&config);
}

static int run(const struct scenario *scenario) {
  if (!scenario->nobody_listens) listen_in_folder();
  pid_t pid = fork();
  if (pid == 0) _exit(supervise(scenario));
  for (int i = 0; i < 2 && scenario->signals[i]; i++) {
    wait_for_cue(i == 0 ? (scenario->cue ? scenario->cue : "started") : "told");
    kill(pid, scenario->signals[i]);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int setup(void **state) {
  (void)state;
  snprintf(folder, sizeof(folder), "/tmp/supervisor-XXXXXX");
  snprintf(address, sizeof(address), "unix:/nowhere");
  return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  char command[128];
  if (listener >= 0) close(listener);
  listener = -1;
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  return system(command);
}

// ---- scripts

#define SLEEPS "sleep 30 & wait"
#define STARTS "echo start >>started; "
#define ENDS_AT_TERM "trap 'echo actor >>told; exit 0' TERM; " STARTS SLEEPS
#define LEARNS_UNTIL_TERM "trap 'echo learner >>told; sleep 0.1; exit 0' TERM; " SLEEPS

// ---- the learner's end

static void exits_with_the_learners_code(void **state) {
  (void)state;
  static const struct {
    const char *learner;
    int code;
  } cases[] = {{"exit 0", 0}, {"exit 3", 3}, {"kill -KILL $$", 128 + SIGKILL}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct scenario scenario = {
        .learner = cases[i].learner, .actor = SLEEPS, .num_actors = 1, .nobody_listens = true};
    assert_int_equal(run(&scenario), cases[i].code);
  }
}

static void a_crash_of_the_learner_is_named(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "kill -SEGV $$", .actor = SLEEPS, .num_actors = 1, .nobody_listens = true};
  assert_int_equal(run(&scenario), 128 + SIGSEGV);
  assert_non_null(strstr(contents("said"), "the learner was killed by signal 11"));
}

static void actors_are_stopped_when_the_learner_ends(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while ! [ -s started ]; do sleep 0.02; done; sleep 0.1; exit 0",
      .actor = ENDS_AT_TERM,
      .num_actors = 2};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("told", "actor"), 2);
}

static void an_actor_that_refuses_its_options_is_not_started_again(void **state) {
  (void)state;
  struct scenario scenario = {.learner = LEARNS_UNTIL_TERM,
                              .actor = STARTS "echo unknown option --x; exit 2",
                              .num_actors = 2};
  assert_int_equal(run(&scenario), 1);
  assert_int_equal(count_of("started", "start"), 2);
  assert_non_null(strstr(contents("said"), "actor 0 refuses its options"));
  assert_non_null(strstr(contents("said"), "unknown option --x"));
}

static void an_actor_that_ignores_the_stop_is_killed_with_its_children(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while ! [ -s started ]; do sleep 0.02; done; exit 0",
      .actor = "trap '' TERM; sleep 30 & echo $! >started; while :; do sleep 0.05; done",
      .num_actors = 1};
  assert_int_equal(run(&scenario), 0);
  assert_non_null(strstr(contents("said"), "actor 0 does not stop"));
  assert_false(is_running(atoi(contents("started"))));
}

static void what_a_dead_actor_started_goes_with_it(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner =
          "while ! [ -s started ]; do sleep 0.02; done; sleep 0.2; cat started >seen; exit 0",
      .actor = "sleep 30 & echo $! >started; exit 0",
      .num_actors = 1};
  assert_int_equal(run(&scenario), 0);
  assert_false(is_running(atoi(contents("seen"))));
}

static void a_learner_that_is_not_there_is_an_error(void **state) {
  (void)state;
  char *learner[] = {"/nowhere/learner", NULL};
  char *const *actors[] = {learner};
  struct supervisor_config config = {.learner = learner,
                                     .actors = actors,
                                     .num_actors = 1,
                                     .address = address,
                                     .log_folder = folder};
  supervisor_defaults(&config);
  assert_int_equal(supervisor_run(&config), 1);
}

// ---- actors

static void actors_wait_for_the_learner(void **state) {
  (void)state;
  struct scenario scenario = {.learner = "sleep 0.3; exit 0",
                              .actor = STARTS SLEEPS,
                              .num_actors = 2,
                              .nobody_listens = true};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("started", "start"), 0);
}

static void an_actor_that_was_sent_home_is_not_started_again(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while ! [ -s started ]; do sleep 0.02; done; sleep 0.2; exit 0",
      .actor = STARTS "exit 0",
      .num_actors = 1};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("started", "start"), 1);
}

static void an_actor_that_crashes_is_started_again(void **state) {
  (void)state;
  struct scenario scenario = {.learner = "while ! [ -s third ]; do sleep 0.02; done; exit 0",
                              .actor = STARTS
                              "case $(wc -l <started) in 1) exit 7;; 2) kill -SEGV $$;; esac;"
                              "echo x >third; " SLEEPS,
                              .num_actors = 1};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("started", "start"), 3);
  assert_non_null(strstr(contents("said"), "actor 0 ended with exit code 7; starting it again"));
  assert_non_null(strstr(contents("said"), "actor 0 was killed by signal 11"));
}

static void five_deaths_end_an_actor_and_the_last_actor_ends_the_run(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = LEARNS_UNTIL_TERM, .actor = STARTS "echo out of memory; exit 7", .num_actors = 1};
  assert_int_equal(run(&scenario), 1);
  assert_int_equal(count_of("started", "start"), 5);
  assert_int_equal(count_of("told", "learner"), 1);
  assert_non_null(strstr(contents("said"), "5 deaths within 60 s"));
  // Its log is shown, a line for each of the four new starts and in the end all five, and kept.
  assert_int_equal(count_of("said", "out of memory\n"), 4 + 5);
  assert_int_equal(count_of("logs/actor-0.log", "out of memory\n"), 5);
}

static void the_others_go_on_without_an_actor_that_was_given_up(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while ! grep -q 'not starting' said; do sleep 0.02; done; sleep 0.2; exit 0",
      .actor = "if mkdir first 2>/dev/null; then trap 'echo actor >>told; exit 0' TERM; " SLEEPS
               "; else sleep 0.05; exit 7; fi",
      .num_actors = 2};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("told", "actor"), 1);
}

static void the_run_goes_on_without_its_evaluator(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while ! grep -q 'not starting' said; do sleep 0.02; done; sleep 0.2; exit 0",
      .actor = "trap 'echo actor >>told; exit 0' TERM; " SLEEPS,
      .evaluator = "echo out of luck; sleep 0.05; exit 7",
      .num_actors = 2};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("told", "actor"), 1);
  assert_non_null(strstr(contents("said"), "evaluator 0 ended with exit code 7; that is 5 deaths"));
  assert_int_equal(count_of("logs/evaluator-0.log", "out of luck\n"), 5);
}

static void an_evaluator_alone_is_no_run(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = LEARNS_UNTIL_TERM, .actor = "exit 7", .evaluator = ENDS_AT_TERM, .num_actors = 2};
  assert_int_equal(run(&scenario), 1);
  assert_non_null(strstr(contents("said"), "no actor is left"));
}

static void deaths_that_are_far_apart_do_not_count_together(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while [ $(cat started | wc -l) -lt 8 ]; do sleep 0.02; done; exit 0",
      .actor = STARTS "sleep 0.05; exit 7",
      .num_actors = 1,
      .death_window_ms = 100};
  assert_int_equal(run(&scenario), 0);
  assert_true(count_of("started", "start") >= 8);
}

static void without_a_limit_an_actor_is_always_started_again(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while [ $(cat started | wc -l) -lt 8 ]; do sleep 0.02; done; exit 0",
      .actor = STARTS "exit 7",
      .num_actors = 1,
      .any_deaths = true};
  assert_int_equal(run(&scenario), 0);
  assert_true(count_of("started", "start") >= 8);
}

// Several at a time, so that one ends while another one is being started again.
static void many_deaths_at_once_are_survived(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while [ $(cat started | wc -l) -lt 400 ]; do sleep 0.02; done; exit 0",
      .actor = STARTS "exit 7",
      .num_actors = MAX_ACTORS,
      .any_deaths = true};
  assert_int_equal(run(&scenario), 0);
  assert_true(count_of("started", "start") >= 400);
}

// ---- stopping

static void a_stop_reaches_the_learner_first(void **state) {
  (void)state;
  static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
  for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
    if (i > 0) assert_int_equal(teardown(state) | setup(state), 0);
    struct scenario scenario = {.learner = LEARNS_UNTIL_TERM,
                                .actor = ENDS_AT_TERM,
                                .num_actors = 2,
                                .signals = {signals[i]}};
    assert_int_equal(run(&scenario), 0);
    assert_string_equal(contents("told"), "learner\nactor\nactor\n");
  }
}

static void actors_are_told_when_the_learner_takes_long(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "trap 'echo learner >>told; sleep 0.6; echo end >>told; exit 0' TERM; " SLEEPS,
      .actor = ENDS_AT_TERM,
      .num_actors = 1,
      .signals = {SIGTERM}};
  assert_int_equal(run(&scenario), 0);
  assert_string_equal(contents("told"), "learner\nactor\nend\n");
}

static void a_second_signal_kills(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "trap 'echo learner >>told' TERM; while :; do sleep 0.05; done",
      .actor = STARTS SLEEPS,
      .num_actors = 1,
      .signals = {SIGINT, SIGINT}};
  assert_int_equal(run(&scenario), 130);
}

static void a_learner_that_does_not_stop_is_killed(void **state) {
  (void)state;
  struct scenario scenario = {.learner = "trap '' TERM; while :; do sleep 0.05; done",
                              .actor = ENDS_AT_TERM,
                              .num_actors = 1,
                              .signals = {SIGTERM},
                              .learner_stop_ms = 300};
  assert_int_equal(run(&scenario), 128 + SIGKILL);
  assert_int_equal(count_of("told", "actor"), 1);
}

// It is given the time to get ready for a signal.
static void a_stop_before_the_learner_listens_still_ends(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "echo x >up; sleep 0.1; trap 'echo learner >>told; exit 0' TERM; " SLEEPS,
      .actor = STARTS SLEEPS,
      .num_actors = 1,
      .nobody_listens = true,
      .signals = {SIGTERM},
      .cue = "up"};
  assert_int_equal(run(&scenario), 0);
  assert_string_equal(contents("told"), "learner\n");
  assert_int_equal(count_of("started", "start"), 0);
}

static void a_learner_that_the_stop_itself_ends_has_stopped_as_told(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = SLEEPS, .actor = STARTS SLEEPS, .num_actors = 1, .signals = {SIGTERM}};
  assert_int_equal(run(&scenario), 0);
  assert_null(strstr(contents("said"), "error"));
}

static void an_ignored_hangup_stays_ignored(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while ! [ -s started ]; do sleep 0.02; done; sleep 0.3; exit 4",
      .actor = STARTS SLEEPS,
      .num_actors = 1,
      .ignores_hangup = true,
      .signals = {SIGHUP}};
  assert_int_equal(run(&scenario), 4);
}

// ---- without a learner

static void actors_alone_end_when_all_are_sent_home(void **state) {
  (void)state;
  struct scenario scenario = {.actor = STARTS "[ $(wc -l <started) -ge 4 ] || exit 7; exit 0",
                              .num_actors = 2};
  assert_int_equal(run(&scenario), 0);
  assert_true(count_of("started", "start") >= 4);
}

static void actors_alone_are_stopped_by_one_signal(void **state) {
  (void)state;
  struct scenario scenario = {.actor = ENDS_AT_TERM, .num_actors = 3, .signals = {SIGTERM}};
  assert_int_equal(run(&scenario), 0);
  // Those that the signal met before their trap was set have told nobody.
  assert_true(count_of("told", "actor") >= 1);
}

static void actors_alone_that_all_die_end_with_an_error(void **state) {
  (void)state;
  struct scenario scenario = {
      .actor = STARTS "echo no engine >&2; exit 7", .num_actors = 2, .logs_are_shown = true};
  assert_int_equal(run(&scenario), 1);
  assert_int_equal(count_of("started", "start"), 10);
  assert_int_equal(count_of("said", "no engine"), 10);
  assert_non_null(strstr(contents("said"), "no actor is left"));
}

static void a_lost_actor_is_not_started_again(void **state) {
  (void)state;
  struct scenario scenario = {.actor = STARTS "exit 4", .num_actors = 1, .lost_exit_code = 4};
  assert_int_equal(run(&scenario), 1);
  assert_int_equal(count_of("started", "start"), 1);
  assert_non_null(strstr(contents("said"), "actor 0 has found no learner"));
}

static void one_of_two_was_lost_the_other_sent_home(void **state) {
  (void)state;
  struct scenario scenario = {.actor = "if mkdir first 2>/dev/null; then exit 4; fi; exit 0",
                              .num_actors = 2,
                              .lost_exit_code = 4};
  assert_int_equal(run(&scenario), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(exits_with_the_learners_code),
      TEST(a_crash_of_the_learner_is_named),
      TEST(actors_are_stopped_when_the_learner_ends),
      TEST(an_actor_that_refuses_its_options_is_not_started_again),
      TEST(an_actor_that_ignores_the_stop_is_killed_with_its_children),
      TEST(what_a_dead_actor_started_goes_with_it),
      TEST(a_learner_that_is_not_there_is_an_error),
      TEST(actors_wait_for_the_learner),
      TEST(an_actor_that_was_sent_home_is_not_started_again),
      TEST(an_actor_that_crashes_is_started_again),
      TEST(five_deaths_end_an_actor_and_the_last_actor_ends_the_run),
      TEST(the_others_go_on_without_an_actor_that_was_given_up),
      TEST(the_run_goes_on_without_its_evaluator),
      TEST(an_evaluator_alone_is_no_run),
      TEST(deaths_that_are_far_apart_do_not_count_together),
      TEST(many_deaths_at_once_are_survived),
      TEST(without_a_limit_an_actor_is_always_started_again),
      TEST(a_stop_reaches_the_learner_first),
      TEST(actors_are_told_when_the_learner_takes_long),
      TEST(a_second_signal_kills),
      TEST(a_learner_that_does_not_stop_is_killed),
      TEST(a_stop_before_the_learner_listens_still_ends),
      TEST(a_learner_that_the_stop_itself_ends_has_stopped_as_told),
      TEST(an_ignored_hangup_stays_ignored),
      TEST(actors_alone_end_when_all_are_sent_home),
      TEST(actors_alone_are_stopped_by_one_signal),
      TEST(actors_alone_that_all_die_end_with_an_error),
      TEST(a_lost_actor_is_not_started_again),
      TEST(one_of_two_was_lost_the_other_sent_home),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
