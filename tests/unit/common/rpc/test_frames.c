/* What is counted of a peer's bytes, however they are cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/frames.h"

enum { DATA = 0, HEADERS = 1, SETTINGS = 4, PING = 6, GOAWAY = 7, CONTINUATION = 9 };
enum { ROOM = 1 << 20 };

/* A connection's bytes. */
struct bytes {
  size_t count;
  uint8_t data[ROOM];
};

static struct bytes *begin(void) {
  struct bytes *bytes = calloc(1, sizeof(*bytes));
  assert_non_null(bytes);
  memcpy(bytes->data, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", FRAMES_PREFACE_BYTES);
  bytes->count = FRAMES_PREFACE_BYTES;
  return bytes;
}

/* The content is 0xff: it must not be taken for a head. */
static void add(struct bytes *bytes, int kind, uint32_t stream, size_t size) {
  const uint8_t head[FRAMES_HEAD_BYTES] = {
      (uint8_t)(size >> 16),   (uint8_t)(size >> 8),    (uint8_t)size,          (uint8_t)kind,  5,
      (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
  assert_true(bytes->count + sizeof(head) + size <= ROOM);
  memcpy(bytes->data + bytes->count, head, sizeof(head));
  memset(bytes->data + bytes->count + sizeof(head), 0xff, size);
  bytes->count += sizeof(head) + size;
}

/* Reads all in pieces of one size, and in random ones (0). */
static void expect(const struct bytes *bytes, uint64_t data_bytes, uint64_t calls) {
  static const size_t pieces[] = {ROOM, 1, 2, 8, 9, 10, 0};
  for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
    struct frames frames;
    frames_init(&frames);
    for (size_t at = 0; at < bytes->count;) {
      size_t piece = pieces[i] ? pieces[i] : (size_t)rand() % 50;
      if (piece > bytes->count - at) piece = bytes->count - at;
      frames_read(&frames, bytes->data + at, piece);
      at += piece;
    }
    assert_int_equal(frames.data_bytes, data_bytes);
    assert_int_equal(frames.calls, calls);
  }
}

static void only_data_counts(void **state) {
  (void)state;
  struct bytes *bytes = begin();
  add(bytes, SETTINGS, 0, 0);
  add(bytes, HEADERS, 1, 100);
  add(bytes, DATA, 1, 5);
  add(bytes, PING, 0, 8);
  add(bytes, DATA, 1, 0);
  add(bytes, DATA, 1, 16384);
  add(bytes, DATA, 1, 70000);
  add(bytes, HEADERS, 3, 1);
  add(bytes, HEADERS, 1, 1); /* the end of the first one's */
  add(bytes, 77, 0, 300);
  expect(bytes, 5 + 16384 + 70000, 2);
  free(bytes);
}

/* The top bit of a stream's number is reserved. */
static void streams_are_counted_once(void **state) {
  (void)state;
  struct bytes *bytes = begin();
  for (uint32_t i = 0; i < 100; i++) add(bytes, HEADERS, (2 * i + 1) | (i % 2) << 31, 6);
  expect(bytes, 0, 100);
  free(bytes);
}

static void a_long_header_block_counts(void **state) {
  (void)state;
  struct bytes *bytes = begin();
  for (int i = 0; i < 5; i++) add(bytes, HEADERS, (uint32_t)(2 * i + 1), FRAMES_FREE_BYTES);
  expect(bytes, 0, 5);
  add(bytes, CONTINUATION, 9, 100);
  add(bytes, CONTINUATION, 9, 1000);
  expect(bytes, 1100, 5);
  add(bytes, HEADERS, 11, FRAMES_FREE_BYTES - 1);
  add(bytes, CONTINUATION, 11, 2);
  add(bytes, GOAWAY, 0, FRAMES_FREE_BYTES + 7);
  expect(bytes, 1108, 6);
  free(bytes);
}

int main(void) {
  srand(3);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_data_counts),
      cmocka_unit_test(streams_are_counted_once),
      cmocka_unit_test(a_long_header_block_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
