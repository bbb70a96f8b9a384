#include "common/wire/wire_cursor.h"

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

/* A number in base 128 of at most max_bytes bytes: 10 for a value, 5 for a tag or a length. */
static bool read_varint(struct wire_cursor *cursor, uint64_t *value, int max_bytes) {
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

/* One field as its tag announces it. */
struct field {
  uint32_t number;
  enum wire_type type;
  size_t bytes; /* of the content; a VARINT's end by itself */
};

/* The content of WIRE_BYTES must lie within the message: checked once, here, so that later reads of
 * it cannot fail. */
static enum status read_length(struct wire_cursor *cursor, struct field *field, const char *message,
                               struct error *error) {
  uint64_t bytes;
  if (!read_varint(cursor, &bytes, 5) || bytes > INT_MAX)
    return status_fail(error, STATUS_INVALID, "%s: field %u has a broken length", message,
                       (unsigned)field->number);
  if (bytes > cursor->left)
    return status_fail(error, STATUS_INVALID, "%s: field %u claims %llu bytes, but only %zu follow",
                       message, (unsigned)field->number, (unsigned long long)bytes, cursor->left);
  field->bytes = (size_t)bytes;
  return STATUS_OK;
}

static enum status read_tag(struct wire_cursor *cursor, struct field *field, const char *message,
                            struct error *error) {
  uint64_t tag;
  if (!read_varint(cursor, &tag, 5))
    return status_fail(error, STATUS_INVALID, "%s: broken field tag", message);
  *field = (struct field){.number = (uint32_t)(tag >> 3), .type = (enum wire_type)(tag & 7)};
  if (field->number == 0)
    return status_fail(error, STATUS_INVALID, "%s: field number 0 is not allowed", message);
  switch (field->type) {
    case WIRE_VARINT:
      return STATUS_OK;
    case WIRE_FIXED64:
      field->bytes = 8;
      return STATUS_OK;
    case WIRE_FIXED32:
      field->bytes = 4;
      return STATUS_OK;
    case WIRE_BYTES:
      return read_length(cursor, field, message, error);
  }
  return status_fail(error, STATUS_INVALID,
                     "%s: field %u has wire type %d; groups and unknown types are refused", message,
                     (unsigned)field->number, (int)field->type);
}

/* *place: the field's; NULL: it has none. */
static enum status find_place(const struct wire_place **place, const struct field *field,
                              const struct wire_place *places, int num_places,
                              struct error *error) {
  *place = NULL;
  for (int i = 0; i < num_places; i++) {
    if (places[i].number != field->number) continue;
    *place = &places[i];
    if (places[i].type == field->type) return STATUS_OK;
  }
  if (!*place) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "%s has wire type %d, but acorn.proto gives it %d",
                     (*place)->name, (int)field->type, (int)(*place)->type);
}

/* Into its place, or over it. *value: of a VARINT, else 0. */
static bool read_content(struct wire_cursor *cursor, const struct field *field, void *out,
                         uint64_t *value) {
  *value = 0;
  if (field->type == WIRE_FIXED64) return wire_cursor_read(cursor, out, 8);
  if (field->type == WIRE_VARINT) {
    if (!read_varint(cursor, value, 10)) return false;
    if (out) *(uint32_t *)out = (uint32_t)*value;
    return true;
  }
  if (out) {
    *(struct wire_cursor *)out = *cursor;
    ((struct wire_cursor *)out)->left = field->bytes;
  }
  return wire_cursor_read(cursor, NULL, field->bytes);
}

enum status wire_cursor_next(struct wire_cursor *cursor, const struct wire_place **place,
                             struct wire_cursor *content, const struct wire_place *places,
                             int num_places, const char *message, struct error *error) {
  while (cursor->left > 0) {
    struct field field = {0};
    enum status status = read_tag(cursor, &field, message, error);
    if (status == STATUS_OK) status = find_place(place, &field, places, num_places, error);
    if (status != STATUS_OK) return status;
    bool is_frequent = *place && !(*place)->out;
    void *out = is_frequent ? content : *place ? (*place)->out : NULL;
    uint64_t value;
    if (read_content(cursor, &field, out, &value)) {
      if (*place && value > UINT32_MAX)
        return status_fail(error, STATUS_INVALID, "%s is %llu, more than a uint32 holds",
                           (*place)->name, (unsigned long long)value);
      if (is_frequent) return STATUS_OK;
    } else if (*place) {
      return status_fail(error, STATUS_INVALID, "%s: the message ends inside %s", message,
                         (*place)->name);
    } else {
      return status_fail(error, STATUS_INVALID, "%s: the message ends inside field %u", message,
                         (unsigned)field.number);
    }
  }
  *place = NULL;
  return STATUS_OK;
}
