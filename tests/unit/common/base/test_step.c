// The first number that cannot be learned from, at every place and length, aligned or not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/step.h"

static void the_first_wild_one_is_found(void **state) {
  (void)state;
  static const float wild[] = {NAN, -NAN, INFINITY, -INFINITY, 1.001e9f, -1.001e9f};
  static const float fine[] = {0, -0.0f, STEP_MAX_NUMBER, -STEP_MAX_NUMBER, 1e-40f};
  uint8_t bytes[1 + 11 * sizeof(float)];
  for (size_t count = 0; count <= 11; count++)
    for (size_t at = 0; at <= count; at++)
      for (size_t k = 0; k < sizeof wild / sizeof *wild; k++) {
        for (size_t i = 0; i < count; i++)
          memcpy(bytes + 1 + 4 * i, i < at ? &fine[(i + k) % 5] : &wild[(i + k) % 6], 4);
        assert_int_equal(step_first_wild(bytes + 1, count), at);
        if (at + 1 < count) memcpy(bytes + 1 + 4 * (at + 1), &fine[0], 4); /* it alone */
        assert_int_equal(step_first_wild(bytes + 1, count), at);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_wild_one_is_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
