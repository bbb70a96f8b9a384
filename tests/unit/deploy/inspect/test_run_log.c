/* Columns of small metrics files, and what is left out of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/inspect/run_log.h"
#include "tests/unit/support/temporary_folder.h"

static struct run_log run;
static struct error error;

static enum status read_text(const char *text, bool seconds, const char *y) {
  temporary_folder_write(temporary_folder(), "metrics.jsonl", text);
  struct run_axes axes = {seconds, y};
  run_log_deinit(&run);
  return run_log_read(&run, temporary_folder(), &axes, &error);
}

static void expect(const double (*points)[2], int count) {
  assert_int_equal(run.count, count);
  for (int i = 0; i < count; i++) {
    assert_true(run.point[i].x == points[i][0]);
    assert_true(run.point[i].y == points[i][1]);
  }
}

static const char plain[] =
    "{\"step\":0,\"seconds\":0.5,\"r\":null}\n"
    "{\"step\":10,\"seconds\":1.5,\"r\":1}\n"
    "{\"step\":30,\"seconds\":2.5,\"r\":2.5}\n"
    "{\"step\":30,\"seconds\":3,\"r\":3}\n";

static void lines_become_points(void **state) {
  (void)state;
  assert_int_equal(read_text(plain, false, "r"), STATUS_OK);
  expect((const double[][2]){{10, 1}, {30, 3}}, 2); /* the later of two lines at one step */
}

static void seconds_may_be_the_axis(void **state) {
  (void)state;
  assert_int_equal(read_text(plain, true, "seconds"), STATUS_OK);
  expect((const double[][2]){{0.5, 0.5}, {1.5, 1.5}, {2.5, 2.5}, {3, 3}}, 4);
}

static void where_x_goes_back_the_later_line_stands(void **state) {
  (void)state;
  const char *text =
      "{\"step\":10,\"seconds\":1,\"r\":1}\n"
      "{\"step\":20,\"seconds\":2,\"r\":2}\n"
      "{\"step\":40,\"seconds\":4,\"r\":4}\n"
      "{\"step\":25,\"seconds\":5,\"r\":9}\n"
      "{\"step\":50,\"seconds\":6,\"r\":5}\n";
  assert_int_equal(read_text(text, false, "r"), STATUS_OK);
  expect((const double[][2]){{10, 1}, {20, 2}, {25, 9}, {50, 5}}, 4);
  assert_int_equal(read_text(text, true, "r"), STATUS_OK);
  expect((const double[][2]){{1, 1}, {2, 2}, {4, 4}, {5, 9}, {6, 5}}, 5);
}

static void lines_that_are_none_are_left_out(void **state) {
  (void)state;
  const char *text =
      "{\"step\":10,\"seconds\":1,\"r\":1}\n"
      "\n[1, 2]\n{\"step\":\"x\"}\nnonsense\n"
      "{\"step\":20,\"seconds\":2,\"r\":2}\n"
      "{\"step\":30,\"seconds\":3,\"r";
  assert_int_equal(read_text(text, false, "r"), STATUS_OK);
  expect((const double[][2]){{10, 1}, {20, 2}}, 2);
}

static void mistakes_are_named(void **state) {
  (void)state;
  assert_int_equal(read_text(plain, false, "s"), STATUS_INVALID);
  assert_non_null(strstr(error.text, "--y=s"));
  assert_non_null(strstr(error.text, "it has step, seconds, r"));
  assert_int_equal(read_text("", false, "r"), STATUS_INVALID);
  assert_non_null(strstr(error.text, "no line of metrics"));
  struct run_axes axes = {false, "r"};
  run_log_deinit(&run);
  assert_int_equal(run_log_read(&run, "/nowhere", &axes, &error), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, "/nowhere/metrics.jsonl"));
  run_log_deinit(&run);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_become_points),
      cmocka_unit_test(seconds_may_be_the_axis),
      cmocka_unit_test(where_x_goes_back_the_later_line_stands),
      cmocka_unit_test(lines_that_are_none_are_left_out),
      cmocka_unit_test(mistakes_are_named),
  };
  return cmocka_run_group_tests(tests, temporary_folder_setup, temporary_folder_teardown);
}
