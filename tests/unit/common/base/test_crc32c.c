/* Vectors: RFC 3720, appendix B.4 (bytes there in the order of the wire), and the usual
 * "123456789". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/random.h"

enum { BYTES = 300 };

static void fill_random(uint8_t bytes[BYTES]) {
  for (uint32_t i = 0; i < BYTES; i++) bytes[i] = (uint8_t)random_bits(1, 0, 0, i, RANDOM_TEST);
}

static void test_known_answers(void **state) {
  (void)state;
  uint8_t zeros[32] = {0}, ones[32], rising[32], falling[32];
  memset(ones, 255, sizeof ones);
  for (int i = 0; i < 32; i++) rising[i] = (uint8_t)i, falling[i] = (uint8_t)(31 - i);
  const struct {
    const void *bytes;
    size_t count;
    uint32_t expected;
  } rows[] = {{"", 0, 0},
              {zeros, 32, 0x8a9136aa},
              {ones, 32, 0x62a8ab43},
              {rising, 32, 0x46dd794e},
              {falling, 32, 0x113fdb5c},
              {"123456789", 9, 0xe3069283}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_int_equal(crc32c(rows[i].bytes, rows[i].count), rows[i].expected);
    assert_int_equal(crc32c_extend_tables(0, rows[i].bytes, rows[i].count), rows[i].expected);
  }
}

static void test_tables_and_instruction_agree_at_every_length_and_alignment(void **state) {
  (void)state;
  uint8_t bytes[BYTES];
  fill_random(bytes);
  for (size_t from = 0; from < 9; from++)
    for (size_t count = 0; count + from <= BYTES; count++)
      assert_int_equal(crc32c_extend(from != 0, bytes + from, count),
                       crc32c_extend_tables(from != 0, bytes + from, count));
}

static void test_pieces_give_the_checksum_of_the_whole(void **state) {
  (void)state;
  uint8_t bytes[BYTES];
  fill_random(bytes);
  uint32_t whole = crc32c(bytes, BYTES);
  for (size_t split = 0; split <= BYTES; split++) {
    assert_int_equal(crc32c_extend(crc32c(bytes, split), bytes + split, BYTES - split), whole);
    assert_int_equal(crc32c_extend_tables(crc32c(bytes, split), bytes + split, BYTES - split),
                     whole);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known_answers),
      cmocka_unit_test(test_tables_and_instruction_agree_at_every_length_and_alignment),
      cmocka_unit_test(test_pieces_give_the_checksum_of_the_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
