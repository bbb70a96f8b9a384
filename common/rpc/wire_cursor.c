#include "common/rpc/wire_cursor.h"

#include <limits.h>

void wire_cursor_init(struct wire_cursor *cursor, const struct wire_span *spans, int num_spans) {
  *cursor = (struct wire_cursor){.span = spans};
  for (int i = 0; i < num_spans; i++) cursor->left += spans[i].bytes;
}

bool wire_cursor_read(struct wire_cursor *cursor, void *out, size_t bytes) {
  if (bytes > cursor->left) return false;
  cursor->left -= bytes;
  uint8_t *to = out;
  while (bytes > 0) {
    size_t here = cursor->span->bytes - cursor->offset;
    if (here == 0) {
      cursor->span++;
      cursor->offset = 0;
      continue;
    }
    if (here > bytes) here = bytes;
    if (to) {
      memcpy(to, cursor->span->data + cursor->offset, here);
      to += here;
    }
    cursor->offset += here;
    bytes -= here;
  }
  return true;
}

bool wire_cursor_varint(struct wire_cursor *cursor, uint64_t *value, int max_bytes) {
  *value = 0;
  for (int i = 0; i < max_bytes; i++) {
    uint8_t byte;
    if (!wire_cursor_read(cursor, &byte, 1)) return false;
    /* The tenth byte of a value has room for one bit; the rest is dropped, as every other reader
     * does. */
    *value |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

/* The content must lie within the message: checked once, here, so that later reads of it cannot
 * fail. */
static enum status read_length(struct wire_cursor *cursor, struct wire_field *field,
                               const char *message, struct error *error) {
  uint64_t bytes;
  if (!wire_cursor_varint(cursor, &bytes, 5) || bytes > INT_MAX)
    return status_fail(error, STATUS_INVALID, "%s: field %u has a broken length", message,
                       (unsigned)field->number);
  if (bytes > cursor->left)
    return status_fail(error, STATUS_INVALID, "%s: field %u claims %llu bytes, but only %zu follow",
                       message, (unsigned)field->number, (unsigned long long)bytes, cursor->left);
  field->bytes = (size_t)bytes;
  return STATUS_OK;
}

enum status wire_cursor_field(struct wire_cursor *cursor, struct wire_field *field,
                              const char *message, struct error *error) {
  uint64_t tag;
  if (!wire_cursor_varint(cursor, &tag, 5))
    return status_fail(error, STATUS_INVALID, "%s: broken field tag", message);
  *field = (struct wire_field){.number = (uint32_t)(tag >> 3), .type = (enum wire_type)(tag & 7)};
  if (field->number == 0)
    return status_fail(error, STATUS_INVALID, "%s: field number 0 is not allowed", message);
  switch (field->type) {
    case WIRE_VARINT:
    case WIRE_FIXED64:
    case WIRE_FIXED32:
      return STATUS_OK;
    case WIRE_BYTES:
      return read_length(cursor, field, message, error);
  }
  return status_fail(error, STATUS_INVALID,
                     "%s: field %u has wire type %d; groups and unknown types are refused", message,
                     (unsigned)field->number, (int)field->type);
}

enum status wire_cursor_skip(struct wire_cursor *cursor, const struct wire_field *field,
                             const char *message, struct error *error) {
  uint64_t value;
  bool there = false;
  switch (field->type) {
    case WIRE_VARINT:
      there = wire_cursor_varint(cursor, &value, 10);
      break;
    case WIRE_FIXED64:
      there = wire_cursor_read(cursor, NULL, 8);
      break;
    case WIRE_FIXED32:
      there = wire_cursor_read(cursor, NULL, 4);
      break;
    case WIRE_BYTES:
      there = wire_cursor_read(cursor, NULL, field->bytes);
      break;
  }
  if (there) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "%s: the message ends inside field %u", message,
                     (unsigned)field->number);
}

enum status wire_expect_type(const struct wire_field *field, enum wire_type type, const char *name,
                             struct error *error) {
  if (field->type == type) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "%s has wire type %d, but acorn.proto gives it %d",
                     name, (int)field->type, (int)type);
}

enum status wire_ends_inside(const char *name, struct error *error) {
  return status_fail(error, STATUS_INVALID, "Steps: the message ends inside %s", name);
}
