/* Against the check value of the standard, and in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/base/crc32.h"

static void known_values(void **state) {
  (void)state;
  assert_int_equal(crc32_extend(0, "", 0), 0);
  assert_int_equal(crc32_extend(0, "123456789", 9), 0xcbf43926);
  assert_int_equal(crc32_extend(0, "a", 1), 0xe8b7be43);
  assert_int_equal(crc32_extend(0, "\0\0\0\0", 4), 0x2144df1c);
}

static void pieces_are_as_the_whole(void **state) {
  (void)state;
  for (size_t cut = 0; cut <= 9; cut++)
    assert_int_equal(crc32_extend(crc32_extend(0, "123456789", cut), "123456789" + cut, 9 - cut),
                     0xcbf43926);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_values),
      cmocka_unit_test(pieces_are_as_the_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
