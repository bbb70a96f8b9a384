/* Pieces of the parameters that are got or set. */
#include "common/wire/wire_cursor.h"

enum { PIECE_DATA = 1, PIECE_TOTAL_BYTES, PIECE_VERSION, PIECE_EXPECTS_VERSION };

static uint8_t *put_fixed64(uint8_t *out, uint32_t number, uint64_t value) {
  if (!value) return out;
  return wire_put_bytes(wire_put_tag(out, number, WIRE_FIXED64), &value, sizeof(value));
}

size_t wire_encode_piece_header(uint8_t out[WIRE_PIECE_HEADER_BYTES],
                                const struct wire_piece *piece) {
  uint8_t *end = put_fixed64(out, PIECE_TOTAL_BYTES, piece->total_bytes);
  end = put_fixed64(end, PIECE_VERSION, piece->version);
  if (piece->expects_version)
    end = wire_put_varint(wire_put_tag(end, PIECE_EXPECTS_VERSION, WIRE_VARINT), 1);
  if (piece->bytes) end = wire_put_varint(wire_put_tag(end, PIECE_DATA, WIRE_BYTES), piece->bytes);
  return (size_t)(end - out);
}

enum status wire_decode_piece(struct wire_piece *piece, uint8_t *data, size_t room,
                              const struct wire_span *spans, int num_spans, struct error *error) {
  uint32_t expects = 0;
  struct wire_cursor cursor, content = {0};
  *piece = (struct wire_piece){0};
  const struct wire_place *end,
      places[] = {
          {PIECE_DATA, WIRE_BYTES, &content, "ParametersPiece.data"},
          {PIECE_TOTAL_BYTES, WIRE_FIXED64, &piece->total_bytes, "ParametersPiece.total_bytes"},
          {PIECE_VERSION, WIRE_FIXED64, &piece->version, "ParametersPiece.version"},
          {PIECE_EXPECTS_VERSION, WIRE_VARINT, &expects, "ParametersPiece.expects_version"}};
  wire_cursor_init(&cursor, spans, num_spans);
  enum status status = wire_cursor_next(&cursor, &end, NULL, places, 4, "ParametersPiece", error);
  if (status != STATUS_OK) return status;
  piece->bytes = content.left;
  piece->expects_version = expects != 0;
  if (!data) return STATUS_OK;
  if (piece->bytes > room)
    return status_fail(error, STATUS_INVALID,
                       "ParametersPiece.data has %zu bytes, and %zu are still to come",
                       piece->bytes, room);
  wire_cursor_read(&content, data, piece->bytes);
  return STATUS_OK;
}
