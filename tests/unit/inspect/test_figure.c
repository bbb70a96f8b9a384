/* Tics and their words; the data; a script whose words cannot break out of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inspect/figure.h"

static void steps_are_round_and_few(void **state) {
  (void)state;
  static const double steps[][2] = {{1, 0.2},      {500, 100},       {1500000, 200000},
                                    {0.03, 0.005}, {700000, 100000}, {9, 2}};
  for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
    assert_true(fabs(figure_tic_step(steps[i][0]) / steps[i][1] - 1) < 1e-9);
  for (double span = 1e-3; span < 1e9; span *= 1.37) {
    double count = span / figure_tic_step(span);
    assert_true(count >= 3.9 && count <= 10.1);
  }
}

static void labels_are_short(void **state) {
  (void)state;
  static const struct {
    double value, step;
    const char *text;
  } cases[] = {{0, 100, "0"},
               {200000, 200000, "200k"},
               {1200000, 200000, "1.2M"},
               {1000000, 200000, "1.0M"},
               {500, 100, "500"},
               {0.25, 0.05, "0.25"},
               {-1.5, 0.5, "-1.5"},
               {2e9, 1e9, "2G"},
               {1e-17, 0.1, "0"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[32];
    assert_string_equal(figure_tic_label(text, cases[i].value, cases[i].step), cases[i].text);
  }
}

static struct curve_point points[] = {{0, 1, 0.5, 2}, {1000, 3, 2.5, INFINITY}};
static const struct figure_line lines[] = {{"it's\none", 1, {points, 2}}, {"two", 3, {points, 2}}};
static const struct figure figure = {"it's a title", "x", "y", "range", lines, 2};

static char *written(void (*write)(const struct figure *, FILE *)) {
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  write(&figure, out);
  fclose(out);
  return text;
}

static void the_data(void **state) {
  (void)state;
  char *text = written(figure_write_data);
  assert_string_equal(text,
                      "# it's\none, 1 run\n0 1 0.5 2\n1000 3 2.5 inf\n\n\n"
                      "# two, 3 runs\n0 1 0.5 2\n1000 3 2.5 inf\n");
  free(text);
}

static void the_script(void **state) {
  (void)state;
  char *text = written(figure_write_script);
  assert_non_null(strstr(text, "set title 'it''s a title' noenhanced\n"));
  assert_non_null(strstr(text, "title 'it''s one' noenhanced"));
  assert_non_null(strstr(text, "title 'two (mean and range of 3 runs)' noenhanced"));
  assert_non_null(strstr(text, "set xrange [0:1000]\n"));
  assert_non_null(strstr(text, "$line1 using 1:3:4 with filledcurves"));
  assert_null(strstr(text, "$line0 using 1:3:4")); /* one run has no band */
  assert_null(strstr(text, "yrange [0:inf"));
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_are_round_and_few),
      cmocka_unit_test(labels_are_short),
      cmocka_unit_test(the_data),
      cmocka_unit_test(the_script),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
