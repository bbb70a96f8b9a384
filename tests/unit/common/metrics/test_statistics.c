/* Against known numbers: Student's table, and samples worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/metrics/statistics.h"

/* The printed tables of the t distribution, two-sided 95 %. */
static void quantiles_are_those_of_the_tables(void **state) {
  (void)state;
  static const struct {
    int degrees;
    double t;
  } table[] = {{1, 12.706}, {2, 4.303},  {3, 3.182},   {4, 2.776},     {5, 2.571},
               {6, 2.447},  {9, 2.262},  {10, 2.228},  {15, 2.131},    {30, 2.042},
               {60, 2.000}, {99, 1.984}, {120, 1.980}, {100000, 1.960}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
    assert_true(fabs(statistics_t975(table[i].degrees) - table[i].t) < 0.005);
}

static void a_sample_worked_out_by_hand(void **state) {
  (void)state;
  /* Mean 5, squares 9+1+1+1+0+0+4+16 = 32, / 7; t(7) = 2.3646. */
  const double values[] = {2, 4, 4, 4, 5, 5, 7, 9};
  struct statistics s = statistics_of(values, 8);
  assert_int_equal(s.count, 8);
  assert_true(s.mean == 5 && s.min == 2 && s.max == 9);
  assert_true(fabs(s.std - 2.138089935) < 1e-8);
  assert_true(fabs(s.high - (5 + 2.3646 * 2.138089935 / sqrt(8))) < 0.002);
  assert_true(fabs(s.low + s.high - 10) < 1e-12);
}

static void equal_numbers_have_no_spread(void **state) {
  (void)state;
  const double values[] = {500, 500, 500};
  struct statistics s = statistics_of(values, 3);
  assert_true(s.std == 0 && s.low == 500 && s.high == 500);
}

static void one_number_says_nothing_about_its_mean(void **state) {
  (void)state;
  const double value = 3;
  struct statistics s = statistics_of(&value, 1);
  assert_true(s.mean == 3 && s.std == 0 && s.low == -INFINITY && s.high == INFINITY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantiles_are_those_of_the_tables),
      cmocka_unit_test(a_sample_worked_out_by_hand),
      cmocka_unit_test(equal_numbers_have_no_spread),
      cmocka_unit_test(one_number_says_nothing_about_its_mean),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
