// The learner under the supervisor, how a run is stopped, and actors without a learner.
#include "tests/unit/deploy/launch/supervisor_scenario.h"

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
    assert_int_equal(run(&scenario), signals[i] == SIGINT ? 128 + SIGINT : 0);
    assert_string_equal(contents("told"), "learner\nactor\nactor\n");
  }
}

// It is part of its result: Ctrl-C ends a shell loop, an actor that is given up is a failure.
static void the_learner_gets_to_know_why(void **state) {
  (void)state;
  static const char learner[] =
      "for s in TERM INT USR1; do trap \"echo $s >>told; exit 0\" $s; done; " SLEEPS;
  struct scenario interrupted = {
      .learner = learner, .actor = ENDS_AT_TERM, .num_actors = 1, .signals = {SIGINT}};
  assert_int_equal(run(&interrupted), 128 + SIGINT);
  assert_int_equal(count_of("told", "INT"), 1);
  assert_int_equal(teardown(state) | setup(state), 0);
  struct scenario deserted = {.learner = learner, .actor = "exit 7", .num_actors = 1};
  assert_int_equal(run(&deserted), 1);
  assert_int_equal(count_of("told", "USR1"), 1);
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
      .learner = "trap 'echo learner >>told' TERM INT; while :; do sleep 0.05; done",
      .actor = STARTS SLEEPS,
      .num_actors = 1,
      .signals = {SIGINT, SIGINT}};
  assert_int_equal(run(&scenario), 130);
}

// `timeout -s INT` sends its child one and its group another: the learner still ends in order.
static void a_signal_that_is_sent_twice_is_one_wish(void **state) {
  static const int signals[] = {SIGINT, SIGTERM};
  for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
    if (i > 0) assert_int_equal(teardown(state) | setup(state), 0);
    struct scenario scenario = {
        .learner = "trap 'sleep 0.1; echo learner >>told; exit 3' TERM INT; echo x >up; " SLEEPS,
        .actor = SLEEPS,
        .num_actors = 1,
        .signals = {signals[i]},
        .sent_twice = true,
        .cue = "up"};
    assert_int_equal(run(&scenario), 3);
    assert_string_equal(contents("told"), "learner\n");
  }
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

// As long as it tells that it does.
static void a_learner_that_saves_for_long_is_not_killed(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner =
          "trap 'for i in $(seq 30); do printf \"%-14dw\\n\" $$ >&$ACORN_NOTIFY_FD; "
          "sleep 0.1; done; echo learner >>told; exit 0' TERM; " SLEEPS,
      .actor = ENDS_AT_TERM,
      .num_actors = 1,
      .signals = {SIGTERM},
      .learner_stop_ms = 2000};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("told", "learner"), 1);
}

// One that hangs after its result line would otherwise hold the launcher for ever.
static void a_learner_that_does_not_end_after_its_run_is_killed(void **state) {
  (void)state;
  struct scenario scenario = {.learner =
                                  "echo x >>started; printf '%-14df\\n' $$ >&$ACORN_NOTIFY_FD; "
                                  "while :; do sleep 0.05; done",
                              .actor = ENDS_AT_TERM,
                              .num_actors = 1,
                              .learner_stop_ms = 300};
  assert_int_equal(run(&scenario), 128 + SIGKILL);
  assert_non_null(strstr(contents("said"), "has not ended for 0 s after its run"));
}

static void a_learner_that_ends_after_its_run_keeps_its_code(void **state) {
  (void)state;
  struct scenario scenario = {.learner = "printf '%-14df\\n' $$ >&$ACORN_NOTIFY_FD; exit 3",
                              .actor = SLEEPS,
                              .num_actors = 1,
                              .learner_stop_ms = 5000};
  assert_int_equal(run(&scenario), 3);
}

// ---- several learners

// The actor's end is that of the learners' call: it is not started again.
static void a_lost_learner_is_reported(void **state) {
  (void)state;
  static const char *const learners[] = {
      "printf '%-14de\\n' 3 >&$ACORN_NOTIFY_FD; echo x >lost; sleep 0.3; exit 1",
      "printf '%-14dq\\n' 3 >&$ACORN_NOTIFY_FD; echo x >lost; sleep 0.3; exit 1",
      "printf '%-14dq\\n' 1 >&$ACORN_NOTIFY_FD; echo x >lost; " SLEEPS,
      "sleep 0.3; echo x >lost; kill -KILL $$"};
  static const int codes[] = {30, 31, 11, 10};
  for (int i = 0; i < 4; i++) {
    if (i > 0) assert_int_equal(teardown(state) | setup(state), 0);
    char learner[256];
    snprintf(learner, sizeof(learner), "until [ -e started ]; do sleep 0.01; done; %s",
             learners[i]);
    struct scenario scenario = {
        .learner = learner,
        .actor = STARTS "until [ -e lost ]; do sleep 0.01; done; sleep 0.1; exit 1",
        .num_actors = 1,
        .several_learners = true};
    assert_int_equal(run(&scenario), codes[i]);
    assert_int_equal(count_of("started", "start"), 1);
  }
}

#define ONCE_STARTED "until [ -e started ]; do sleep 0.01; done; "

// One of them writes the last checkpoint of the first; what an actor leaves behind does not count.
static void the_other_learners_are_waited_for(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = STARTS_ANOTHER("sleep 1; echo x >written") ONCE_STARTED "kill -KILL $$",
      .actor = "setsid sleep 30 & echo $! >>left; " STARTS SLEEPS,
      .num_actors = 1,
      .several_learners = true};
  int64_t begun_us = clock_now_us();
  assert_int_equal(run(&scenario), 10);
  assert_int_equal(count_of("written", "x"), 1);
  assert_true(clock_now_us() - begun_us < 25 * 1000 * 1000);
  kill(atoi(contents("left")), SIGKILL);
}

static void other_learners_that_hang_are_killed(void **state) {
  (void)state;
  struct scenario scenario = {.learner = STARTS_ANOTHER("echo $$ >other; sleep 20; echo x >written")
                                  ONCE_STARTED
                              "until [ -s other ]; do sleep 0.01; done; kill -KILL $$",
                              .actor = STARTS SLEEPS,
                              .num_actors = 1,
                              .several_learners = true,
                              .learner_stop_ms = 300};
  assert_int_equal(run(&scenario), 10);
  assert_false(is_running(atoi(contents("other"))));
  assert_int_equal(count_of("written", "x"), 0);
  assert_non_null(
      strstr(contents("said"), "one of the other learners has not ended for 0 s after"));
}

#define ONCE_SIGNALLED "until grep -q more said; do sleep 0.01; done; "

// It does not end the wait; a second one does.
static void a_signal_while_others_are_waited_for_is_the_first(void **state) {
  (void)state;
  struct scenario scenario = {.learner = STARTS_ANOTHER(ONCE_SIGNALLED "sleep 0.5; echo x >written")
                                  ONCE_STARTED "kill -KILL $$",
                              .actor = STARTS SLEEPS,
                              .num_actors = 1,
                              .several_learners = true,
                              .signals = {SIGTERM},
                              .cue = "said"}; // that the learner was killed
  assert_int_equal(run(&scenario), 110);
  assert_int_equal(count_of("written", "x"), 1);
  assert_int_equal(teardown(state) | setup(state), 0);
  scenario.learner = STARTS_ANOTHER(ONCE_SIGNALLED "echo $$ >told; sleep 20; echo x >written")
      ONCE_STARTED "kill -KILL $$";
  scenario.signals[0] = scenario.signals[1] = SIGINT;
  assert_int_equal(run(&scenario), 130);
  assert_false(is_running(atoi(contents("told"))));
  assert_int_equal(count_of("written", "x"), 0);
}

// The first learner still runs, or does not answer to the stop.
static void a_signal_during_a_loss_is_reported(void **state) {
  (void)state;
  static const char *const learners[] = {
      "trap 'exit 1' TERM; " ONCE_STARTED
      "printf '%-14de\\n' 2 >&$ACORN_NOTIFY_FD; echo x >lost; sleep 30 & wait",
      "trap 'printf \"%-14dq\\n\" 1 >&$ACORN_NOTIFY_FD' TERM; " ONCE_STARTED
      "echo x >lost; while :; do sleep 0.05; done"};
  static const int codes[] = {120, 111};
  for (int i = 0; i < 2; i++) {
    if (i > 0) assert_int_equal(teardown(state) | setup(state), 0);
    struct scenario scenario = {.learner = learners[i],
                                .actor = STARTS SLEEPS,
                                .num_actors = 1,
                                .several_learners = true,
                                .signals = {SIGTERM},
                                .cue = "lost"};
    assert_int_equal(run(&scenario), codes[i]);
  }
}

// Its start would come while the other learners are waited for.
static void an_actor_that_finished_stays_so_after_the_run(void **state) {
  (void)state;
  struct scenario scenario = {.learner = STARTS_ANOTHER("sleep 3") ONCE_STARTED "sleep 0.2; exit 0",
                              .actor = STARTS FINISHES,
                              .num_actors = 1,
                              .several_learners = true,
                              .home_ms = 1500};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("started", "start"), 1);
}

// It would be again, in each start.
static void a_loss_before_the_learner_listens_is_none(void **state) {
  (void)state;
  struct scenario scenario = {.learner = "printf '%-14de\\n' 2 >&$ACORN_NOTIFY_FD; exit 1",
                              .actor = SLEEPS,
                              .num_actors = 1,
                              .nobody_listens = true,
                              .several_learners = true};
  assert_int_equal(run(&scenario), 1);
}

static void a_signal_between_two_runs_stops_the_second(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "[ -e first ] || { echo x >first; exit 1; }; " LEARNS_UNTIL_TERM,
      .actor = SLEEPS,
      .num_actors = 1,
      .signal_before_second_run = SIGTERM,
      .stopped_exit_code = 143};
  assert_int_equal(run(&scenario), 143);
}

static void a_run_that_was_stopped_has_lost_no_learner(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "trap 'printf \"%-14de\\n\" 2 >&$ACORN_NOTIFY_FD; exit 1' TERM; " SLEEPS,
      .actor = STARTS SLEEPS,
      .num_actors = 1,
      .signals = {SIGTERM},
      .several_learners = true};
  assert_int_equal(run(&scenario), 1);
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
  struct scenario scenario = {.actor = STARTS "[ $(wc -l <started) -ge 4 ] || exit 7; " FINISHES,
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

static void a_stopped_run_has_the_exit_code_that_was_asked_for(void **state) {
  static const struct {
    const char *learner;
    int signum, exit_code;
  } rows[] = {{LEARNS_UNTIL_TERM, SIGTERM, 143},
              {LEARNS_UNTIL_TERM, SIGINT, 128 + SIGINT},
              {NULL, SIGTERM, 143},
              {"exit 0", 0, 0},
              {"trap 'exit 3' TERM; " SLEEPS, SIGTERM, 3}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    if (i > 0) assert_int_equal(teardown(state) | setup(state), 0);
    struct scenario scenario = {.learner = rows[i].learner,
                                .actor = ENDS_AT_TERM,
                                .num_actors = 1,
                                .signals = {rows[i].signum},
                                .stopped_exit_code = 143};
    assert_int_equal(run(&scenario), rows[i].exit_code);
  }
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
  assert_non_null(strstr(contents("said"), "actor 0 got no lease from a learner"));
}

static void one_of_two_was_lost_the_other_sent_home(void **state) {
  (void)state;
  struct scenario scenario = {.actor = "if mkdir first 2>/dev/null; then exit 4; fi; " FINISHES,
                              .num_actors = 2,
                              .lost_exit_code = 4};
  assert_int_equal(run(&scenario), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(exits_with_the_learners_code),
      TEST(a_lost_learner_is_reported),
      TEST(the_other_learners_are_waited_for),
      TEST(other_learners_that_hang_are_killed),
      TEST(a_signal_while_others_are_waited_for_is_the_first),
      TEST(a_signal_during_a_loss_is_reported),
      TEST(an_actor_that_finished_stays_so_after_the_run),
      TEST(a_loss_before_the_learner_listens_is_none),
      TEST(a_signal_between_two_runs_stops_the_second),
      TEST(a_run_that_was_stopped_has_lost_no_learner),
      TEST(a_crash_of_the_learner_is_named),
      TEST(a_learner_that_is_not_there_is_an_error),
      TEST(a_stop_reaches_the_learner_first),
      TEST(the_learner_gets_to_know_why),
      TEST(actors_are_told_when_the_learner_takes_long),
      TEST(a_second_signal_kills),
      TEST(a_signal_that_is_sent_twice_is_one_wish),
      TEST(a_learner_that_does_not_stop_is_killed),
      TEST(a_learner_that_saves_for_long_is_not_killed),
      TEST(a_learner_that_does_not_end_after_its_run_is_killed),
      TEST(a_learner_that_ends_after_its_run_keeps_its_code),
      TEST(a_stop_before_the_learner_listens_still_ends),
      TEST(a_learner_that_the_stop_itself_ends_has_stopped_as_told),
      TEST(an_ignored_hangup_stays_ignored),
      TEST(actors_alone_end_when_all_are_sent_home),
      TEST(actors_alone_are_stopped_by_one_signal),
      TEST(a_stopped_run_has_the_exit_code_that_was_asked_for),
      TEST(actors_alone_that_all_die_end_with_an_error),
      TEST(a_lost_actor_is_not_started_again),
      TEST(one_of_two_was_lost_the_other_sent_home),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
