// Where no locale with a decimal comma can be made the test is skipped.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/decimal.h"
#include "common/base/options.h"
#include "common/base/status.h"
#include "tests/unit/support/temporary_folder.h"

static char folder[TEMPORARY_FOLDER_BYTES];

// As an environment may.
static int set_german(void **state) {
  (void)state;
  char command[512];
  temporary_folder_make(folder);
  snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s/said 2>&1",
           folder, folder);
  if (system(command) != 0) return 0;
  setenv("LOCPATH", folder, 1);
  setlocale(LC_ALL, "de_DE.UTF-8");
  return 0;
}

static int reset(void **state) {
  (void)state;
  setlocale(LC_ALL, "C");
  temporary_folder_remove(folder);
  return 0;
}

static const char *half(void) {
  static char text[8];
  snprintf(text, sizeof text, "%.1f", 0.5);
  return text;
}

static void test_a_point_and_then_the_locale_as_before(void **state) {
  (void)state;
  if (strcmp(half(), "0,5") != 0) skip();
  locale_t before = decimal_begin();
  assert_string_equal(half(), "0.5");
  assert_true(strtod("0.5", NULL) == 0.5);
  decimal_end(before);
  assert_string_equal(half(), "0,5");
}

static void test_errors_have_a_point(void **state) {
  (void)state;
  struct error error;
  if (strcmp(half(), "0,5") != 0) skip();
  assert_int_equal(status_fail(&error, STATUS_IO, "%g", 0.25), STATUS_IO);
  assert_string_equal(error.text, "0.25");
}

static void test_options_are_read_and_written_with_a_point(void **state) {
  (void)state;
  struct config {
    struct options_given given;
    double rate;
  } config;
  static const struct option row = {
      "rate", NULL, OPTION_FLOAT, offsetof(struct config, rate), "6e-4", 1e-5, 0.5, NULL, "", ""};
  static const struct option_table table = {"learner", NULL, "", NULL, &row, 1};
  struct error error;
  if (strcmp(half(), "0,5") != 0) skip();
  options_init(&table, &config);
  assert_true(config.rate == 6e-4);
  assert_int_equal(options_set(&table, &config, "rate", "0.25", "", &error), STATUS_OK);
  assert_true(config.rate == 0.25);
  char *text = options_value_text(&row, &config);
  assert_string_equal(text, "0.25");
  free(text);
  assert_int_equal(options_set(&table, &config, "rate", "0.75", "", &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "allowed: 1e-05..0.5"));
  assert_string_equal(half(), "0,5");
  options_deinit(&table, &config);
}

static void test_short_forms(void **state) {
  (void)state;
  const struct {
    double number;
    const char *text;
  } cases[] = {{0, "0"},           {3.5, "3.50"},    {9999, "9999"},  {12345, "12k"},
               {1234567, "1.23M"}, {1.5e9, "1.50G"}, {1e12, "1.00T"}, {NAN, "-"}};
  char text[DECIMAL_BYTES];
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    assert_string_equal(decimal_short(text, cases[i].number), cases[i].text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_point_and_then_the_locale_as_before),
      cmocka_unit_test(test_short_forms),
      cmocka_unit_test(test_errors_have_a_point),
      cmocka_unit_test(test_options_are_read_and_written_with_a_point),
  };
  return cmocka_run_group_tests(tests, set_german, reset);
}
