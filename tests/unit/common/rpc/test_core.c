/* Bytes in and out of gRPC's buffers, without a network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <grpc/support/sync.h>
#include <string.h>

#include "common/rpc/core.h"

enum { PIECE_BYTES = 40, MAX_PIECES = 2 * CORE_MAX_SPANS };

/* A message of `pieces` slices, whose bytes count up. */
static grpc_byte_buffer *make(int pieces) {
  static uint8_t bytes[MAX_PIECES * PIECE_BYTES];
  static grpc_slice slices[MAX_PIECES];
  for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (uint8_t)(i * 7 + i / 256);
  for (int i = 0; i < pieces; i++)
    slices[i] = grpc_slice_from_copied_buffer((char *)bytes + i * PIECE_BYTES, PIECE_BYTES);
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(slices, (size_t)pieces);
  for (int i = 0; i < pieces; i++) grpc_slice_unref(slices[i]);
  return buffer;
}

static void a_message_is_whole_in_any_number_of_pieces(void **state) {
  (void)state;
  static const struct {
    int pieces, spans;
  } cases[] = {
      {1, 1}, {2, 2}, {CORE_MAX_SPANS, CORE_MAX_SPANS}, {CORE_MAX_SPANS + 1, 1}, {MAX_PIECES, 1}};
  for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
    struct core_message message;
    core_message_init(&message, make(cases[c].pieces));
    assert_int_equal(message.num_spans, cases[c].spans);
    size_t at = 0;
    for (int i = 0; i < message.num_spans; i++)
      for (size_t b = 0; b < message.span[i].bytes; b++, at++)
        if (message.span[i].data[b] != (uint8_t)(at * 7 + at / 256))
          fail_msg("byte %zu of case %zu", at, c);
    assert_int_equal(at, cases[c].pieces * PIECE_BYTES);
    core_message_deinit(&message);
  }
}

static void two_parts_become_one_slice(void **state) {
  (void)state;
  static const char *const parts[][3] = {
      {"", "", ""}, {"ab", "", "ab"}, {"", "cd", "cd"}, {"ab", "cde", "abcde"}};
  for (int i = 0; i < 4; i++) {
    struct core_message message;
    core_message_init(&message, core_bytes_copied(parts[i][0], strlen(parts[i][0]), parts[i][1],
                                                  strlen(parts[i][1])));
    assert_int_equal(message.num_spans, 1);
    assert_int_equal(message.span[0].bytes, strlen(parts[i][2]));
    assert_memory_equal(message.span[0].data, parts[i][2], strlen(parts[i][2]));
    core_message_deinit(&message);
  }
}

/* gpr_mu is a lock of Abseil's; its search ends the process at two locks taken in both orders. */
static void the_deadlock_search_is_off(void **state) {
  (void)state;
  gpr_mu lock[2];
  for (int i = 0; i < 2; i++) gpr_mu_init(&lock[i]);
  for (int first = 0; first < 2; first++) {
    gpr_mu_lock(&lock[first]);
    gpr_mu_lock(&lock[1 - first]);
    gpr_mu_unlock(&lock[1 - first]);
    gpr_mu_unlock(&lock[first]);
  }
  for (int i = 0; i < 2; i++) gpr_mu_destroy(&lock[i]);
}

static int setup(void **state) {
  (void)state;
  core_init();
  return 0;
}

static int teardown(void **state) {
  (void)state;
  core_deinit();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_is_whole_in_any_number_of_pieces),
      cmocka_unit_test(two_parts_become_one_slice),
      cmocka_unit_test(the_deadlock_search_is_off),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
