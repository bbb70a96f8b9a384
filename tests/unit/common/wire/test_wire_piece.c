/* ParametersPiece by hand, against protobuf-c: both ways, in any split; what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "acorn.pb-c.h"
#include "common/wire/wire.h"

enum { DATA_BYTES = 300 };

static uint8_t data[DATA_BYTES];
static const struct wire_piece cases[] = {
    {0},
    {.version = 7},
    {.bytes = 1, .total_bytes = 1},
    {.bytes = DATA_BYTES, .total_bytes = 1000, .version = UINT64_MAX, .expects_version = true},
    {.bytes = DATA_BYTES, .expects_version = true},
};
enum { NUM_CASES = sizeof(cases) / sizeof(cases[0]) };

static size_t encode(uint8_t *out, const struct wire_piece *piece) {
  size_t header = wire_encode_piece_header(out, piece);
  memcpy(out + header, data, piece->bytes);
  return header + piece->bytes;
}

static void it_is_what_protobuf_reads(void **state) {
  (void)state;
  for (int i = 0; i < NUM_CASES; i++) {
    uint8_t bytes[WIRE_PIECE_HEADER_BYTES + DATA_BYTES];
    size_t size = encode(bytes, &cases[i]);
    Acorn__ParametersPiece *message = acorn__parameters_piece__unpack(NULL, size, bytes);
    assert_non_null(message);
    assert_int_equal(message->data.len, cases[i].bytes);
    if (cases[i].bytes) assert_memory_equal(message->data.data, data, cases[i].bytes);
    assert_true(message->total_bytes == cases[i].total_bytes);
    assert_true(message->version == cases[i].version);
    assert_int_equal(message->expects_version, cases[i].expects_version);
    assert_true(acorn__parameters_piece__get_packed_size(message) == size);
    acorn__parameters_piece__free_unpacked(message, NULL);
  }
}

static void expect_read(const struct wire_piece *expected, const uint8_t *bytes, size_t size,
                        size_t split) {
  const struct wire_span spans[2] = {{bytes, split}, {bytes + split, size - split}};
  uint8_t found[DATA_BYTES];
  struct wire_piece piece;
  assert_int_equal(wire_decode_piece(&piece, found, DATA_BYTES, spans, 2, NULL), STATUS_OK);
  assert_int_equal(piece.bytes, expected->bytes);
  assert_true(piece.total_bytes == expected->total_bytes && piece.version == expected->version &&
              piece.expects_version == expected->expects_version);
  assert_memory_equal(found, data, piece.bytes);
}

static void what_protobuf_writes_is_read_in_any_split(void **state) {
  (void)state;
  for (int i = 0; i < NUM_CASES; i++) {
    uint8_t bytes[WIRE_PIECE_HEADER_BYTES + DATA_BYTES];
    Acorn__ParametersPiece message = ACORN__PARAMETERS_PIECE__INIT;
    message.data = (ProtobufCBinaryData){cases[i].bytes, data};
    message.total_bytes = cases[i].total_bytes;
    message.version = cases[i].version;
    message.expects_version = cases[i].expects_version;
    size_t size = acorn__parameters_piece__pack(&message, bytes);
    for (size_t split = 0; split <= size; split++) expect_read(&cases[i], bytes, size, split);
  }
}

static void more_data_than_room_is_refused(void **state) {
  (void)state;
  uint8_t bytes[WIRE_PIECE_HEADER_BYTES + DATA_BYTES], found[DATA_BYTES] = {0};
  struct wire_piece piece = {.bytes = DATA_BYTES};
  struct error error;
  const struct wire_span span = {bytes, encode(bytes, &piece)};
  assert_int_equal(wire_decode_piece(&piece, found, DATA_BYTES - 1, &span, 1, &error),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "has 300 bytes, and 299 are still to come"));
  assert_int_equal(wire_decode_piece(&piece, NULL, 0, &span, 1, &error), STATUS_OK);
  assert_int_equal(piece.bytes, DATA_BYTES);
}

static void a_cut_message_is_refused(void **state) {
  (void)state;
  uint8_t bytes[WIRE_PIECE_HEADER_BYTES + DATA_BYTES];
  struct error error;
  struct wire_piece piece;
  size_t size = encode(bytes, &cases[2]);
  const struct wire_span span = {bytes, size - 1};
  assert_int_equal(wire_decode_piece(&piece, NULL, 0, &span, 1, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "ParametersPiece"));
}

int main(void) {
  for (int i = 0; i < DATA_BYTES; i++) data[i] = (uint8_t)(i * 7);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_what_protobuf_reads),
      cmocka_unit_test(what_protobuf_writes_is_read_in_any_split),
      cmocka_unit_test(more_data_than_room_is_refused),
      cmocka_unit_test(a_cut_message_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
