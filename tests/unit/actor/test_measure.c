#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "actor/measure.h"

/* Any time, alone in the histogram, is its own median to within a sixteenth. */
static void buckets_are_narrow(void **state) {
  (void)state;
  for (double us = 0; us < 1e9; us = us * 1.07 + 1) {
    struct measure measure = {0};
    struct measure_sum sum = {0};
    measure_message(&measure, (int64_t)us, 1, 1);
    measure_add(&sum, &measure);
    double median = (double)measure_wait_quantile_us(&sum, 0.5);
    assert_true(fabs(median - floor(us)) <= us / 16 + 0.5);
  }
}

static void quantiles_of_many(void **state) {
  (void)state;
  struct measure measure = {0};
  struct measure_sum sum = {0};
  assert_int_equal(measure_wait_quantile_us(&sum, 0.99), 0);
  for (int i = 1; i <= 1000; i++) measure_message(&measure, i, 2, 10);
  measure_add(&sum, &measure);
  assert_in_range(measure_wait_quantile_us(&sum, 0.5), 470, 530);
  assert_in_range(measure_wait_quantile_us(&sum, 0.99), 930, 1050);
  assert_in_range(measure_wait_quantile_us(&sum, 0), 1, 1);
  measure_message(&measure, INT64_MAX, 0, 0); // the last bucket takes all that is longer
}

static void a_line_covers_the_time_since_the_last(void **state) {
  (void)state;
  struct measure measure[2] = {{0}, {0}};
  struct measure_sum before = {0}, now = {0};
  char line[512];
  measure_message(&measure[0], 5000, 100, 100);
  measure_add(&before, &measure[0]);
  measure_add(&before, &measure[1]);
  for (int i = 0; i < 3; i++) measure_message(&measure[1], 10, 4, 50);
  measure_add(&now, &measure[0]);
  measure_add(&now, &measure[1]);
  measure_subtract(&now, &before);
  measure_line(line, sizeof(line), "actor/3", &now);
  assert_string_equal(
      line,
      "actor name=actor/3 messages=3 steps=12 step_us=12.500 wait_mean_us=10.0 wait_p50_us=10 "
      "wait_p99_us=10");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buckets_are_narrow),
      cmocka_unit_test(quantiles_of_many),
      cmocka_unit_test(a_line_covers_the_time_since_the_last),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
