#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "deploy/backoff.h"

static void pauses_double_up_to_a_minute(void **state) {
  (void)state;
  static const int seconds[] = {1, 2, 4, 8, 16, 32, 60, 60, 60};
  struct backoff backoff = {0};
  for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++)
    assert_int_equal(backoff_next_ms(&backoff, &backoff_usual, 0), seconds[i] * 1000);
  for (int i = 0; i < 10000; i++) backoff_next_ms(&backoff, &backoff_usual, 59999);
  assert_int_equal(backoff_next_ms(&backoff, &backoff_usual, 59999), 60 * 1000);
}

static void a_minute_of_work_begins_again(void **state) {
  (void)state;
  struct backoff backoff = {0};
  for (int i = 0; i < 7; i++) backoff_next_ms(&backoff, &backoff_usual, 0);
  assert_int_equal(backoff_next_ms(&backoff, &backoff_usual, 60 * 1000), 1000);
  assert_int_equal(backoff_next_ms(&backoff, &backoff_usual, 0), 2000);
}

static void logs_are_shown_ever_more_rarely(void **state) {
  (void)state;
  struct backoff backoff = {0};
  int shown[16] = {0}, count = 0;
  for (int death = 1; death <= 1000; death++) {
    backoff_next_ms(&backoff, &backoff_usual, 0);
    if (backoff_shows_log(&backoff)) shown[count++] = death;
  }
  assert_int_equal(count, 10);
  for (int i = 0; i < count; i++) assert_int_equal(shown[i], 1 << i);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pauses_double_up_to_a_minute),
      cmocka_unit_test(a_minute_of_work_begins_again),
      cmocka_unit_test(logs_are_shown_ever_more_rarely),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
