/* Known bytes: what TensorBoard's own record writer makes of the same data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/metrics/tfrecord.h"

static void test_known_bytes(void **state) {
  (void)state;
  static const uint8_t acorn[] = {5,   0,   0,   0,   0,   0,   0,    0,    0xea, 0xb2, 0x04,
                                  '>', 'a', 'c', 'o', 'r', 'n', 0x0b, 0xcb, 's',  '}'};
  static const uint8_t empty[] = {0,    0,    0,    0,    0,    0,    0,    0,
                                  0x29, 0x03, 0x98, 0x07, 0xd8, 0xea, 0x82, 0xa2};
  const struct {
    const char *data;
    const uint8_t *record;
    size_t bytes;
  } rows[] = {{"acorn", acorn, sizeof(acorn)}, {"", empty, sizeof(empty)}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    uint8_t record[64];
    size_t bytes = strlen(rows[i].data);
    memcpy(record + TFRECORD_HEADER_BYTES, rows[i].data, bytes);
    tfrecord_frame(record, bytes);
    assert_int_equal(TFRECORD_HEADER_BYTES + bytes + TFRECORD_FOOTER_BYTES, rows[i].bytes);
    assert_memory_equal(record, rows[i].record, rows[i].bytes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_bytes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
