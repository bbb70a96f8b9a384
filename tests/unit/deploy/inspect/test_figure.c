/* The data; a script whose words cannot break out of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/inspect/figure.h"

static struct curve_point points[] = {{0, 1, 0.5, 2}, {1000, 3, 2.5, INFINITY}};
static const struct figure_line lines[] = {{"it's\none", 1, {points, 2}}, {"two", 3, {points, 2}}};
static const struct figure figure = {"'a' \"title\" `of` \\n", "x", "y", "range", lines, 2};

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
  assert_non_null(strstr(text, "set title \"'a' \\\"title\\\" \\`of\\` \\\\n\" noenhanced\n"));
  assert_non_null(strstr(text, "title \"it's one\" noenhanced"));
  assert_non_null(strstr(text, "title \"two (mean and range of 3 runs)\" noenhanced"));
  assert_non_null(strstr(text, "set xrange [0:1000]\n"));
  assert_non_null(strstr(text, "set format y '%.10g'\n"));
  assert_null(strstr(text, "lmargin")); /* gnuplot makes room for its labels */
  assert_non_null(strstr(text, "$line1 using 1:3:4 with filledcurves"));
  assert_null(strstr(text, "$line0 using 1:3:4")); /* one run has no band */
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_data),
      cmocka_unit_test(the_script),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
