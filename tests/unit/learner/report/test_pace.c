/* How often lines are written, and how many a run comes to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "learner/report/pace.h"

enum { SECOND_US = 1000000, DEFAULT_US = 10 * SECOND_US };

static int lines_of(int64_t run_us) {
  int lines = 0;
  for (int64_t now = pace_metrics_us(0, DEFAULT_US); now <= run_us; lines++)
    now += pace_metrics_us(now, DEFAULT_US);
  return lines;
}

static void intervals_grow_between_their_bounds(void **state) {
  (void)state;
  assert_int_equal(pace_metrics_us(0, DEFAULT_US), 50000);
  assert_int_equal(pace_metrics_us(5 * SECOND_US, DEFAULT_US), 50000);
  assert_int_equal(pace_metrics_us(60 * SECOND_US, DEFAULT_US), 600000);
  assert_int_equal(pace_metrics_us(86400ll * SECOND_US, DEFAULT_US), DEFAULT_US);
  assert_int_equal(pace_metrics_us(60 * SECOND_US, 200000), 200000);
  assert_int_equal(pace_metrics_us(0, 5000), 5000);
}

static void short_runs_have_a_curve_and_long_ones_no_huge_file(void **state) {
  (void)state;
  assert_in_range(lines_of(1 * SECOND_US), 18, 22);
  assert_in_range(lines_of(2 * SECOND_US), 38, 42);
  assert_in_range(lines_of(600ll * SECOND_US), 500, 700);
  assert_in_range(lines_of(86400ll * SECOND_US), 8000, 10000);
}

static void the_loop_ticks_at_least_as_often(void **state) {
  (void)state;
  assert_int_equal(pace_tick_ms(0), 20);
  assert_int_equal(pace_tick_ms(10 * SECOND_US), 100);
  assert_int_equal(pace_tick_ms(86400ll * SECOND_US), 250);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(intervals_grow_between_their_bounds),
      cmocka_unit_test(short_runs_have_a_curve_and_long_ones_no_huge_file),
      cmocka_unit_test(the_loop_ticks_at_least_as_often),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
