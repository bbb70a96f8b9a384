/* How soon the main thread looks for Joins and Status again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "learner/serve/serve.h"

enum { MS = 1000, S = 1000 * MS };
static const int64_t now_us = 1000 * (int64_t)S;

static void test_calls_come_together(void **state) {
  (void)state;
  assert_int_equal(serve_poll_ms(now_us, now_us, now_us), SERVE_POLL_MS);
  assert_int_equal(serve_poll_ms(now_us, now_us - 1999 * MS, now_us), SERVE_POLL_MS);
  assert_int_equal(serve_poll_ms(now_us, now_us - 2 * S, now_us), SERVE_CALM_MS);
}

/* It waits for the trainer, or for rows: then no other thread reads. */
static void test_a_thread_that_serves_is_not_at_work(void **state) {
  (void)state;
  assert_int_equal(serve_poll_ms(now_us, 0, now_us - 20 * MS), SERVE_CALM_MS);
  assert_int_equal(serve_poll_ms(now_us, 0, now_us - 21 * MS), SERVE_POLL_MS);
  assert_int_equal(serve_poll_ms(now_us, 0, 0), SERVE_POLL_MS);
}

/* Its turn may be later than the main thread's clock. */
static void test_a_turn_meanwhile(void **state) {
  (void)state;
  assert_int_equal(serve_poll_ms(now_us, 0, now_us + 5 * MS), SERVE_CALM_MS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calls_come_together),
      cmocka_unit_test(test_a_thread_that_serves_is_not_at_work),
      cmocka_unit_test(test_a_turn_meanwhile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
