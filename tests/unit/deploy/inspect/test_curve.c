/* The mean curve of runs whose numbers are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/inspect/curve.h"

/* y = x, y = 3 x in other places, y = 8 throughout. */
static struct run_point rising[] = {{0, 0}, {100, 100}};
static struct run_point steep[] = {{10, 30}, {30, 90}, {70, 210}, {90, 270}};
static struct run_point level[] = {{-5, 8}, {50, 8}, {200, 8}};
static const struct run_log a = {rising, 2, 2}, b = {steep, 4, 4}, c = {level, 3, 3};

static void a_line_between_points_and_level_beyond(void **state) {
  (void)state;
  assert_true(curve_interpolate(&b, 10) == 30);
  assert_true(curve_interpolate(&b, 20) == 60);
  assert_true(curve_interpolate(&b, 70) == 210);
  assert_true(curve_interpolate(&b, 80) == 240);
  assert_true(curve_interpolate(&b, 0) == 30);
  assert_true(curve_interpolate(&b, 1000) == 270);
}

static void the_mean_and_the_range_of_three_runs(void **state) {
  (void)state;
  struct curve curve;
  const struct run_log *logs[] = {&a, &b, &c};
  assert_int_equal(curve_create(&curve, logs, 3, CURVE_RANGE, NULL), STATUS_OK);
  assert_int_equal(curve.count, CURVE_POINTS);
  assert_true(curve.point[0].x == 10 && curve.point[CURVE_POINTS - 1].x == 90);
  for (int i = 0; i < curve.count; i++) {
    double x = 10 + 80.0 * i / (CURVE_POINTS - 1);
    struct curve_point p = curve.point[i];
    assert_true(fabs(p.x - x) < 1e-9);
    assert_true(fabs(p.mean - (x + 3 * x + 8) / 3) < 1e-9);
    assert_true(fabs(p.low - 8) < 1e-9 && fabs(p.high - 3 * x) < 1e-9);
  }
  curve_deinit(&curve);
}

static void the_interval_of_the_mean(void **state) {
  (void)state;
  struct curve curve;
  const struct run_log *logs[] = {&a, &b};
  assert_int_equal(curve_create(&curve, logs, 2, CURVE_INTERVAL, NULL), STATUS_OK);
  /* 10 and 30: mean 20, s = 14.142, / sqrt(2) = 10; t(1) = 12.706. */
  assert_true(fabs(curve.point[0].mean - 20) < 1e-9);
  assert_true(fabs(curve.point[0].high - (20 + 127.06)) < 0.01);
  assert_true(fabs(curve.point[0].low - (20 - 127.06)) < 0.01);
  curve_deinit(&curve);
}

static void a_run_alone_keeps_its_points(void **state) {
  (void)state;
  struct curve curve;
  const struct run_log *logs[] = {&b};
  assert_int_equal(curve_create(&curve, logs, 1, CURVE_INTERVAL, NULL), STATUS_OK);
  assert_int_equal(curve.count, 4);
  assert_true(curve.point[1].x == 30 && curve.point[1].mean == 90 && curve.point[1].low == 90);
  curve_deinit(&curve);
}

static void runs_must_meet_somewhere(void **state) {
  (void)state;
  struct run_point late[] = {{500, 1}, {600, 1}};
  const struct run_log d = {late, 2, 2}, *logs[] = {&a, &d};
  struct curve curve;
  struct error error;
  assert_int_equal(curve_create(&curve, logs, 2, CURVE_RANGE, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "one begins at 500, another ends at 100"));
  curve_deinit(&curve);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_line_between_points_and_level_beyond),
      cmocka_unit_test(the_mean_and_the_range_of_three_runs),
      cmocka_unit_test(the_interval_of_the_mean),
      cmocka_unit_test(a_run_alone_keeps_its_points),
      cmocka_unit_test(runs_must_meet_somewhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
