// Actors under the supervisor: which are started again, and which are given up.
#include "tests/unit/deploy/supervisor_scenario.h"

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
      .actor = "sleep 30 & echo $! >started; " GOES_HOME,
      .num_actors = 1};
  assert_int_equal(run(&scenario), 0);
  assert_false(is_running(atoi(contents("seen"))));
}

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
      .actor = STARTS GOES_HOME,
      .num_actors = 1};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("started", "start"), 1);
}

// The learner may take long to end. The second time is no news.
static void an_actor_that_went_home_too_early_is_started_again(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while [ $(cat started | wc -l) -lt 4 ]; do sleep 0.02; done; exit 0",
      .actor = STARTS GOES_HOME,
      .num_actors = 1,
      .home_ms = 50};
  assert_int_equal(run(&scenario), 0);
  assert_true(count_of("started", "start") >= 4);
  assert_int_equal(count_of("said", "actor 0 has gone home (exit code 0), but the learner goes on"),
                   1);
}

// Sent home by nobody: an environment may end its process with 0.
static void an_actor_that_ends_with_0_without_the_word_has_died(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = LEARNS_UNTIL_TERM, .actor = STARTS "exit 0", .num_actors = 1};
  assert_int_equal(run(&scenario), 1);
  assert_int_equal(count_of("started", "start"), 5);
  assert_int_equal(count_of("said",
                            "actor 0 ended by itself (exit code 0); its environment may "
                            "call _exit; starting it again"),
                   4);
  assert_non_null(strstr(contents("said"), "5 deaths within 60 s"));
}

static void a_stop_waits_for_nobody_who_went_home(void **state) {
  (void)state;
  struct scenario scenario = {.learner = LEARNS_UNTIL_TERM,
                              .actor = STARTS GOES_HOME,
                              .num_actors = 1,
                              .signals = {SIGTERM}};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("started", "start"), 1);
  assert_null(strstr(contents("said"), "gone home"));
}

static void an_actor_that_a_signal_stopped_is_started_again(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while ! [ -s third ]; do sleep 0.02; done; exit 0",
      .actor = STARTS "[ $(wc -l <started) -ge 2 ] || exit 143; echo x >third; " SLEEPS,
      .num_actors = 1};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("started", "start"), 2);
  assert_non_null(strstr(contents("said"), "actor 0 was stopped by SIGTERM; starting it again"));
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

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(actors_are_stopped_when_the_learner_ends),
      TEST(an_actor_that_refuses_its_options_is_not_started_again),
      TEST(an_actor_that_ignores_the_stop_is_killed_with_its_children),
      TEST(what_a_dead_actor_started_goes_with_it),
      TEST(actors_wait_for_the_learner),
      TEST(an_actor_that_was_sent_home_is_not_started_again),
      TEST(an_actor_that_went_home_too_early_is_started_again),
      TEST(an_actor_that_ends_with_0_without_the_word_has_died),
      TEST(a_stop_waits_for_nobody_who_went_home),
      TEST(an_actor_that_a_signal_stopped_is_started_again),
      TEST(an_actor_that_crashes_is_started_again),
      TEST(five_deaths_end_an_actor_and_the_last_actor_ends_the_run),
      TEST(the_others_go_on_without_an_actor_that_was_given_up),
      TEST(the_run_goes_on_without_its_evaluator),
      TEST(an_evaluator_alone_is_no_run),
      TEST(deaths_that_are_far_apart_do_not_count_together),
      TEST(without_a_limit_an_actor_is_always_started_again),
      TEST(many_deaths_at_once_are_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
