/* Divisions by a multiplication (learner/device/cuda/divisor.h) against the processor's: every
 * small divisor with the numbers at both sides of its multiples, and at random. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/base/random.h"
#include "learner/device/cuda/divisor.h"

static void require(int n, int by) {
  struct split split = divide(n, divisor_of(by));
  if (split.whole != n / by || split.rest != n % by)
    fail_msg("%d / %d: %d, rest %d", n, by, split.whole, split.rest);
}

static void require_near(int64_t n, int by) {
  for (int64_t at = n - 1; at <= n + 1; at++)
    if (at >= 0 && at <= INT_MAX) require((int)at, by);
}

static void beside_multiples(int by) {
  int64_t last = INT_MAX / by;
  for (int64_t k = 0; k < 20; k++) {
    require_near(k * by, by);
    require_near((last - k) * by, by);
    require_near(last * k / 20 * by, by);
  }
  require(INT_MAX, by);
}

static void small_divisors(void **state) {
  (void)state;
  for (int by = 1; by < 30000; by++) beside_multiples(by);
}

static void large_divisors(void **state) {
  (void)state;
  for (int shift = 15; shift < 31; shift++)
    for (int more = -2; more <= 2; more++) beside_multiples((1 << shift) + more);
  beside_multiples(INT_MAX);
}

static void any_numbers(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 2000000; i++) {
    uint64_t bits = random_bits(1, 0, 0, i, RANDOM_TEST);
    int by = (int)(bits >> 33) >> i % 31;
    require((int)(bits & INT_MAX), by > 0 ? by : 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_divisors),
      cmocka_unit_test(large_divisors),
      cmocka_unit_test(any_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
