#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "learner/episodes/numbers.h"

static void means_are_of_the_last_values(void **state) {
  (void)state;
  struct numbers *numbers = numbers_create(3, 5);
  double value[NUMBERS_MAX];
  for (int i = 0; i < 10; i++) {
    struct wire_number of[] = {{"speed", i}, {"won", i % 2}};
    numbers_add(numbers, false, of, 2, value);
  }
  assert_int_equal(numbers_count(numbers), 2);
  assert_string_equal(numbers_name(numbers, 0), "speed");
  assert_float_equal(numbers_mean(numbers, false, 0), (7 + 8 + 9) / 3.0, 0);
  assert_float_equal(numbers_mean(numbers, false, 1), 2 / 3.0, 1e-15);
  assert_true(isnan(numbers_mean(numbers, true, 0)));
  assert_float_equal(value[0], 9, 0);
  assert_float_equal(value[1], 1, 0);
  assert_true(isnan(value[2]));
  numbers_destroy(numbers);
}

static void what_is_not_finite_is_skipped(void **state) {
  (void)state;
  struct numbers *numbers = numbers_create(3, 3);
  double value[NUMBERS_MAX];
  struct wire_number of[] = {{"a", NAN}, {"b", INFINITY}, {"c", 4}};
  numbers_add(numbers, true, of, 3, value);
  assert_int_equal(numbers_count(numbers), 1);
  assert_float_equal(numbers_mean(numbers, true, 0), 4, 0);
  numbers_destroy(numbers);
}

static void of_names_that_are_one_to_prometheus_the_first_is_kept(void **state) {
  (void)state;
  struct numbers *numbers = numbers_create(3, 3);
  double value[NUMBERS_MAX];
  struct wire_number of[] = {{"a/b", 1}, {"a_b", 3}, {"a-b.c", 5}};
  numbers_add(numbers, false, of, 3, value);
  assert_int_equal(numbers_count(numbers), 2);
  assert_string_equal(numbers_name(numbers, 0), "a/b");
  assert_string_equal(numbers_name(numbers, 1), "a-b.c");
  assert_float_equal(numbers_mean(numbers, false, 0), 1, 0);
  assert_float_equal(value[0], 1, 0);
  assert_string_equal(numbers_dropped(numbers), "a_b");
  numbers_destroy(numbers);
}

static void names_beyond_the_room_are_dropped_and_named(void **state) {
  (void)state;
  struct numbers *numbers = numbers_create(3, 3);
  double value[NUMBERS_MAX];
  assert_null(numbers_dropped(numbers));
  for (int i = 0; i < NUMBERS_MAX + 2; i++) {
    struct wire_number of = {.value = i};
    snprintf(of.name, sizeof(of.name), "number_%d", i);
    numbers_add(numbers, false, &of, 1, value);
  }
  assert_int_equal(numbers_count(numbers), NUMBERS_MAX);
  assert_string_equal(numbers_dropped(numbers), "number_16");
  assert_float_equal(numbers_mean(numbers, false, NUMBERS_MAX - 1), NUMBERS_MAX - 1, 0);
  numbers_destroy(numbers);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(means_are_of_the_last_values),
      cmocka_unit_test(what_is_not_finite_is_skipped),
      cmocka_unit_test(of_names_that_are_one_to_prometheus_the_first_is_kept),
      cmocka_unit_test(names_beyond_the_room_are_dropped_and_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
