/* The live line at every width, and how often it comes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "learner/report/live.h"

static const struct wire_status run = {.environment = "cartpole",
                                       .agent = "vtrace",
                                       .state = "training",
                                       .environment_steps = 1234567,
                                       .steps_per_second = 220111,
                                       .return_mean = 492.21,
                                       .eval_return_mean = NAN,
                                       .train_environments = 60,
                                       .expected_environments = 64,
                                       .batch_rows = 32,
                                       .episodes = 4882};
static const struct update_stats stats = {
    .losses = {.total = 0.5, .entropy = 0.25}, .lag_updates = 1, .steps = 640};

static void on_a_wide_terminal_all_is_shown(void **state) {
  (void)state;
  char line[512];
  live_format(line, sizeof(line), &run, &stats, 200);
  assert_string_equal(line,
                      "1.23M steps  220k/s  return 492.21  60 of 64 environments  loss 0.5000  "
                      "lag 1.0  batch 32 rows  entropy 0.250  4882 episodes  cartpole vtrace");
  char everything[512];
  live_format(everything, sizeof(everything), &run, &stats, 0);
  assert_string_equal(everything, line);
}

static void a_narrow_one_shows_whole_fields(void **state) {
  (void)state;
  char whole[512], line[512];
  live_format(whole, sizeof(whole), &run, &stats, 0);
  for (int columns = 1; columns < 160; columns++) {
    live_format(line, sizeof(line), &run, &stats, columns);
    size_t length = strlen(line);
    assert_true(length <= (size_t)columns);
    assert_memory_equal(line, whole, length);
    assert_true(length == 0 || whole[length] == '\0' || strncmp(whole + length, "  ", 2) == 0);
  }
  live_format(line, sizeof(line), &run, &stats, 39);
  assert_string_equal(line, "1.23M steps  220k/s  return 492.21");
}

static void what_there_is_none_of_is_left_out(void **state) {
  (void)state;
  struct wire_status status = run;
  char line[512];
  status.return_mean = status.batch_rows = NAN, status.late_environments = 4;
  live_format(line, sizeof(line), &status, NULL, 0);
  assert_string_equal(line,
                      "1.23M steps  220k/s  return -  60 of 64 environments  4 late  "
                      "4882 episodes  cartpole vtrace");
  const struct update_stats none = {.steps = 0};
  char before_updates[512];
  live_format(before_updates, sizeof(before_updates), &status, &none, 0);
  assert_string_equal(before_updates, line);
}

static void a_replay_is_shown_until_training_starts(void **state) {
  (void)state;
  struct wire_status status = run;
  char line[512];
  status.replay_windows = 8120, status.replay_windows_needed = 50000, status.replay_ratio = NAN;
  live_format(line, sizeof(line), &status, NULL, 82);
  assert_string_equal(line,
                      "1.23M steps  220k/s  return 492.21  60 of 64 environments  "
                      "replay 8120 of 50000");
  status.replay_ratio = 1;
  live_format(line, sizeof(line), &status, NULL, 0);
  assert_null(strstr(line, " of 50000"));
  assert_non_null(strstr(line, "replay ratio 1.00"));
}

static void an_evaluation_shows_its_own(void **state) {
  (void)state;
  struct wire_status status = run;
  char line[512];
  strcpy(status.state, "evaluating");
  status.eval_return_mean = 7, status.eval_environments = 3;
  live_format(line, sizeof(line), &status, NULL, 60);
  assert_string_equal(line, "1.23M steps  220k/s  return 7.00  3 of 64 environments");
}

static void a_file_gets_few_lines(void **state) {
  (void)state;
  assert_int_equal(live_interval_us(80, 1), 500000);
  assert_int_equal(live_interval_us(0, 1), 10000000);
  assert_int_equal(live_interval_us(0, 100000), 60000000);
}

static void it_shows_how_far_and_how_long(void **state) {
  (void)state;
  static const struct {
    uint64_t total;
    const char *begins;
  } cases[] = {{10 * 1000 * 1000, "1.23M of 10.00M steps  220k/s  40 s left  return "},
               {100 * 1000 * 1000, "1.23M of 100.00M steps  220k/s  7 min left  return "},
               {10000000000, "1.23M of 10.00G steps  220k/s  12.6 h left  return "},
               {1000000000000, "1.23M of 1.00T steps  220k/s  53 days left  return "},
               {1000, "1.23M of 1000 steps  220k/s  return "}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char line[512];
    struct wire_status status = run;
    status.total_steps = cases[i].total;
    live_format(line, sizeof(line), &status, &stats, 0);
    line[strlen(cases[i].begins)] = '\0';
    assert_string_equal(line, cases[i].begins);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_shows_how_far_and_how_long),
      cmocka_unit_test(on_a_wide_terminal_all_is_shown),
      cmocka_unit_test(a_narrow_one_shows_whole_fields),
      cmocka_unit_test(what_there_is_none_of_is_left_out),
      cmocka_unit_test(a_replay_is_shown_until_training_starts),
      cmocka_unit_test(an_evaluation_shows_its_own),
      cmocka_unit_test(a_file_gets_few_lines),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
