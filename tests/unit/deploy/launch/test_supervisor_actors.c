// Actors under the supervisor: which are started again, and which are given up.
#include "tests/unit/deploy/launch/supervisor_scenario.h"

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
      .actor = "sleep 30 & echo $! >started; " FINISHES,
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
      .actor = STARTS FINISHES,
      .num_actors = 1};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("started", "start"), 1);
}

// The learner may take long to end. The second time is no news.
static void an_actor_that_went_home_too_early_is_started_again(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while [ $(cat started | wc -l) -lt 4 ]; do sleep 0.02; done; exit 0",
      .actor = STARTS FINISHES,
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
                              .actor = STARTS FINISHES,
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

// What it prints first goes, and it goes on to append to the same file.
static void the_log_of_one_that_prints_much_is_cut(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while ! [ -s printed ]; do sleep 0.02; done; exit 0",
      .actor =
          "echo the first line; for i in $(seq 1000); do echo line $i; done;"
          "for i in $(seq 1000); do [ $(stat -c %s logs/actor-0.log) -le 4000 ] && break;"
          "sleep 0.02; done;"
          "echo the last line; echo x >printed; " SLEEPS,
      .num_actors = 1,
      .log_bytes = 4000};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("said", "actor 0 prints much"), 1);
  assert_int_equal(count_of("logs/actor-0.log", "the first line"), 0);
  assert_int_equal(count_of("logs/actor-0.log", "the last line\n"), 1);
  assert_int_equal(count_of("logs/actor-0.log", "longer than 4000 bytes: it begins here"), 1);
  assert_true(count_of("logs/actor-0.log", "\nline ") > 100);
  assert_true(strlen(contents("logs/actor-0.log")) <= 4000);
}

static void a_log_is_also_cut_at_the_end(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while ! [ -s printed ]; do sleep 0.02; done; exit 0",
      .actor = "for i in $(seq 1000); do echo line $i; done; echo x >printed; " SLEEPS,
      .num_actors = 1,
      .log_bytes = 4000};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("logs/actor-0.log", "line 1000\n"), 1);
  assert_true(strlen(contents("logs/actor-0.log")) <= 4000);
}

// ---- back-off

// The pauses, in ms, in the order in which they were announced.
static void assert_pauses(const char *expected) {
  char pauses[1024] = "";
  for (char *at = contents("said"); (at = strstr(at, "starting it again in ")); at++) {
    size_t used = strlen(pauses);
    snprintf(pauses + used, sizeof(pauses) - used, "%s%.0f", used ? " " : "",
             1000 * strtod(at + strlen("starting it again in "), NULL));
  }
  assert_string_equal(pauses, expected);
}

static void one_that_has_stepped_is_started_again_with_growing_pauses(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while [ $(cat started | wc -l) -lt 10 ]; do sleep 0.02; done; exit 0",
      .actor = STARTS "[ $(wc -l <started) -lt 10 ] || exec sleep 30; " STEPS "echo broken; exit 7",
      .num_actors = 1,
      .pauses = {4, 60, 1000000}};
  assert_int_equal(run(&scenario), 0);
  assert_pauses("4 8 16 32 60 60 60 60 60");
  // The log of the 1st, 2nd, 4th and 8th death, with all that it holds by then.
  assert_int_equal(count_of("said", "the last lines of"), 4);
  assert_int_equal(count_of("said", "broken\n"), 1 + 2 + 4 + 8);
}

// Whichever actor it is, and whatever the numbers in its words.
static void an_error_that_repeats_is_shown_once(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while [ $(cat started | wc -l) -lt 10 ]; do sleep 0.02; done; exit 0",
      .actor = STARTS "n=$(wc -l <started); [ $n -lt 10 ] || exec sleep 30; " STEPS
                      "echo $n.5 actor: error: broken after $((7 * n)) steps; exit 7",
      .num_actors = 2,
      .pauses = {4, 60, 1000000}};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("said", "the last lines of"), 1);
  assert_true(count_of("said", "(its log ends with the error shown above); starting it again in") >=
              7);
}

// At the third death, when its log would not be shown: a line, and all of it at the fourth.
static void an_error_that_is_new_is_shown(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while [ $(cat started | wc -l) -lt 6 ]; do sleep 0.02; done; exit 0",
      .actor = STARTS "n=$(wc -l <started); [ $n -lt 6 ] || exec sleep 30; " STEPS
                      "[ $n -le 2 ] && echo error: first || echo error: second; exit 7",
      .num_actors = 1,
      .pauses = {1, 1, 1000000}};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("said", "the last lines of"), 2);
  assert_int_equal(count_of("said", "error: second\n"), 1 + 2);
  assert_int_equal(count_of("said", "(its log ends with the error shown above)"), 2);
}

// What it died of is not in its log: that it ends with the error of another life is no reason.
static void one_that_has_written_nothing_has_no_error(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while [ $(cat started | wc -l) -lt 4 ]; do sleep 0.02; done; exit 0",
      .actor = STARTS "n=$(wc -l <started); [ $n -lt 4 ] || exec sleep 30; " STEPS
                      "[ $n -gt 1 ] || echo error: first; exit 7",
      .num_actors = 1,
      .pauses = {1, 1, 1000000}};
  assert_int_equal(run(&scenario), 0);
  assert_null(strstr(contents("said"), "(its log ends with the error shown above)"));
}

// Five deaths of one that has stepped once, whatever it does then: the disk with its packages may
// have gone.
static void one_that_has_stepped_once_is_not_given_up(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while [ $(cat started | wc -l) -lt 8 ]; do sleep 0.02; done; exit 0",
      .actor = STARTS "case $(wc -l <started) in 1) " STEPS "exit 7;; 2) exit 2;; *) exit 1;; esac",
      .num_actors = 1,
      .pauses = {1, 1, 1000000}};
  assert_int_equal(run(&scenario), 0);
  assert_null(strstr(contents("said"), "not starting it again"));
}

// Work counts from the first step of a life: the second and third life have none.
static void one_that_has_worked_for_long_is_started_again_soon(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while [ $(cat started | wc -l) -lt 5 ]; do sleep 0.02; done; exit 0",
      .actor = STARTS "case $(wc -l <started) in 1|4) " STEPS
                      "sleep 0.1; exit 7;;"
                      "5) exec sleep 30;; *) sleep 0.1; exit 7;; esac",
      .num_actors = 1,
      .pauses = {4, 60, 50}};
  assert_int_equal(run(&scenario), 0);
  assert_pauses("4 8 16 4");
}

static void a_run_waits_for_actors_that_are_all_in_a_pause(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner =
          "while ! grep -q 'actor 1 .*in 3600 s' said || ! grep -q 'actor 0 .*in 3600 s' "
          "said; do sleep 0.02; done; sleep 0.2; echo it goes on >seen; exit 0",
      .actor = STEPS "exit 7",
      .num_actors = 2};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("seen", "it goes on"), 1);
}

static void a_signal_ends_a_long_pause(void **state) {
  (void)state;
  struct scenario scenario = {.learner = LEARNS_UNTIL_TERM,
                              .actor = STEPS "exit 7",
                              .num_actors = 1,
                              .signals = {SIGINT},
                              .cue = "said"};
  assert_int_equal(run(&scenario), 128 + SIGINT);
  assert_pauses("3600000");
  assert_int_equal(count_of("told", "learner"), 1);
}

static void a_signal_ends_a_long_pause_without_a_learner(void **state) {
  (void)state;
  struct scenario scenario = {
      .actor = STEPS "exit 7", .num_actors = 2, .signals = {SIGTERM}, .cue = "said"};
  assert_int_equal(run(&scenario), 0);
}

// 10,000 are more than the pipe has room for.
static void notices_are_read_at_once(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while ! [ -s seen ]; do sleep 0.02; done; exit 0",
      .actor =
          "i=0; while [ $i -lt 10000 ]; do i=$((i + 1));"
          "until printf '%-14ds\\n' $$ >&$ACORN_NOTIFY_FD; do sleep 0.02; done; done 2>/dev/null;"
          "echo x >seen; " FINISHES,
      .num_actors = 1};
  assert_int_equal(run(&scenario), 0);
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

/* The actors of such a run are on other machines. */
static void a_learner_with_only_an_evaluator_beside_it_goes_on_without_it(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while ! grep -q 'not starting' said; do sleep 0.02; done; sleep 0.2; exit 0",
      .evaluator = "sleep 0.05; exit 7",
      .num_actors = 1};
  assert_int_equal(run(&scenario), 0);
  assert_non_null(strstr(contents("said"), "evaluator 0 ended with exit code 7; that is 5 deaths"));
  assert_null(strstr(contents("said"), "no actor is left"));
}

/* With an evaluator, whose end is no other matter. */
static void a_learner_with_actors_elsewhere_goes_on_without_its_own(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = "while ! grep -q 'no actor is left here' said; do sleep 0.02; done; sleep 0.2",
      .actor = "sleep 0.05; exit 7",
      .evaluator = "sleep 0.05; exit 7",
      .num_actors = 3,
      .actors_elsewhere = true};
  assert_int_equal(run(&scenario), 0);
  assert_null(strstr(contents("said"), "stopping the learner"));
}

static void an_evaluator_alone_is_no_run(void **state) {
  (void)state;
  struct scenario scenario = {
      .learner = LEARNS_UNTIL_TERM, .actor = "exit 7", .evaluator = ENDS_AT_TERM, .num_actors = 2};
  assert_int_equal(run(&scenario), 1);
  assert_non_null(strstr(contents("said"), "no actor is left"));
}

/* The log of the second one cannot be opened again, and no process is left whose end is seen. */
static void one_that_cannot_be_started_ends_a_run_that_the_others_have_finished(void **state) {
  (void)state;
  struct scenario scenario = {
      .actor = "mkdir first 2>/dev/null && { echo $$ >pid; " FINISHES
               "; }; "
               "while ! [ -s pid ] || [ -d /proc/$(cat pid) ]; do sleep 0.02; done; "
               "rm logs/*; mkdir logs/actor-0.log logs/actor-1.log; exit 7",
      .num_actors = 2};
  assert_int_equal(run(&scenario), 0);
  assert_int_equal(count_of("said", "could not start"), 4);
  assert_int_equal(count_of("said", "not starting it again"), 1);
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

/* ---- pauses between restarts */

static void pauses_double_up_to_a_minute(void **state) {
  (void)state;
  static const int seconds[] = {1, 2, 4, 8, 16, 32, 60, 60, 60};
  struct supervisor_config config;
  int deaths = 0;
  supervisor_defaults(&config);
  for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++)
    assert_int_equal(supervisor_pause_ms(&deaths, &config, 0), seconds[i] * 1000);
  for (int i = 0; i < 10000; i++) supervisor_pause_ms(&deaths, &config, 59999);
  assert_int_equal(supervisor_pause_ms(&deaths, &config, 59999), 60 * 1000);
}

static void a_minute_of_work_begins_again(void **state) {
  (void)state;
  struct supervisor_config config;
  int deaths = 0;
  supervisor_defaults(&config);
  for (int i = 0; i < 7; i++) supervisor_pause_ms(&deaths, &config, 0);
  assert_int_equal(supervisor_pause_ms(&deaths, &config, 60 * 1000), 1000);
  assert_int_equal(supervisor_pause_ms(&deaths, &config, 0), 2000);
}

/* ---- the end of a log */

// What log_print_tail prints of a file that holds `text`. Owner: the caller.
static char *tail_of(const char *text, size_t bytes, int lines) {
  char path[] = "/tmp/tail-XXXXXX";
  int fd = mkstemp(path);
  assert_int_equal(write(fd, text, bytes), (ssize_t)bytes);
  close(fd);
  char *printed;
  size_t printed_bytes;
  FILE *out = open_memstream(&printed, &printed_bytes);
  log_print_tail(out, path, lines);
  fclose(out);
  unlink(path);
  return printed;
}

static void the_last_lines_are_printed(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int lines;
    const char *printed;
  } cases[] = {
      {"", 2, ""},
      {"a\n", 2, "a\n"},
      {"a\nb\n", 2, "a\nb\n"},
      {"a\nb\nc\n", 2, "b\nc\n"},
      {"a\nb\nc", 2, "b\nc\n"},
      {"a\n\n\n", 2, "\n\n"},
      {"\n", 1, "\n"},
      {"abc", 1, "abc\n"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char *printed = tail_of(cases[i].text, strlen(cases[i].text), cases[i].lines);
    assert_string_equal(printed, cases[i].printed);
    free(printed);
  }
}

static void of_a_large_file_the_end_is_read(void **state) {
  (void)state;
  enum { BYTES = 100 * 1000 };
  char *text = malloc(BYTES);
  memset(text, 'x', BYTES);
  memcpy(text + BYTES - 6, "\nlast\n", 6);
  char *printed = tail_of(text, BYTES, 1);
  assert_string_equal(printed, "last\n");
  free(printed);
  printed = tail_of(text, BYTES, 5);
  assert_true(strlen(printed) <= 16 * 1024);
  free(printed);
  free(text);
}

static void a_file_that_is_not_there_is_named(void **state) {
  (void)state;
  char printed[256] = "";
  FILE *out = fmemopen(printed, sizeof(printed), "w");
  log_print_tail(out, "/nowhere/actor-0.log", 5);
  fclose(out);
  assert_non_null(strstr(printed, "cannot read /nowhere/actor-0.log"));
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
      TEST(the_log_of_one_that_prints_much_is_cut),
      TEST(a_log_is_also_cut_at_the_end),
      TEST(one_that_has_stepped_is_started_again_with_growing_pauses),
      TEST(an_error_that_repeats_is_shown_once),
      TEST(an_error_that_is_new_is_shown),
      TEST(one_that_has_written_nothing_has_no_error),
      TEST(one_that_has_stepped_once_is_not_given_up),
      TEST(one_that_has_worked_for_long_is_started_again_soon),
      TEST(a_run_waits_for_actors_that_are_all_in_a_pause),
      TEST(a_signal_ends_a_long_pause),
      TEST(a_signal_ends_a_long_pause_without_a_learner),
      TEST(notices_are_read_at_once),
      TEST(the_others_go_on_without_an_actor_that_was_given_up),
      TEST(the_run_goes_on_without_its_evaluator),
      TEST(a_learner_with_only_an_evaluator_beside_it_goes_on_without_it),
      TEST(a_learner_with_actors_elsewhere_goes_on_without_its_own),
      TEST(an_evaluator_alone_is_no_run),
      TEST(one_that_cannot_be_started_ends_a_run_that_the_others_have_finished),
      TEST(deaths_that_are_far_apart_do_not_count_together),
      TEST(without_a_limit_an_actor_is_always_started_again),
      TEST(many_deaths_at_once_are_survived),
      cmocka_unit_test(pauses_double_up_to_a_minute),
      cmocka_unit_test(a_minute_of_work_begins_again),
      cmocka_unit_test(the_last_lines_are_printed),
      cmocka_unit_test(of_a_large_file_the_end_is_read),
      cmocka_unit_test(a_file_that_is_not_there_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
