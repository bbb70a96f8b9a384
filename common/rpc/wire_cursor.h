/* Reading protobuf's encoding from a message that lies in several pieces, and writing it into
 * one. Private to common/rpc/wire*.c.
 *
 * Invariant: `left` is the number of bytes that may still be read, never more than lie ahead of
 * the cursor; a read that does not fit fails and nothing outside the pieces is touched. A
 * sub-message is read through a copy of the cursor whose `left` is the sub-message's length. */
#ifndef ACORN_COMMON_RPC_WIRE_CURSOR_H
#define ACORN_COMMON_RPC_WIRE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/status.h"
#include "common/rpc/wire.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire_cursor {
  const struct wire_span *span; /* the piece under the cursor, valid while left > 0 */
  size_t offset;                /* in that piece */
  size_t left;                  /* bytes of the (sub-)message still ahead */
};

/* One field as its tag announces it. */
struct wire_field {
  uint32_t number;
  enum wire_type type;
  size_t bytes; /* WIRE_BYTES: the length of the content, which lies within the message */
};

void wire_cursor_init(struct wire_cursor *cursor, const struct wire_span *spans, int num_spans);

/* Copies the next `bytes` bytes into `out`, or steps over them (out NULL). False: the message
 * ends before that. */
bool wire_cursor_read(struct wire_cursor *cursor, void *out, size_t bytes);

/* Reads a number in base 128 of at most max_bytes bytes (10 for a value, 5 for a tag or a
 * length). */
bool wire_cursor_varint(struct wire_cursor *cursor, uint64_t *value, int max_bytes);

/* Reads a tag and, for WIRE_BYTES, the length. Errors: INVALID (ends in mid-field, number 0,
 * groups); the sentence starts with `message` ("Steps"). */
MUST_CHECK enum status wire_cursor_field(struct wire_cursor *cursor, struct wire_field *field,
                                         const char *message, struct error *error);

/* Steps over the content of a field. */
MUST_CHECK enum status wire_cursor_skip(struct wire_cursor *cursor, const struct wire_field *field,
                                        const char *message, struct error *error);

/* INVALID if a known field came with another wire type than the protocol gives it. */
MUST_CHECK enum status wire_expect_type(const struct wire_field *field, enum wire_type type,
                                        const char *name, struct error *error);

/* INVALID: "Steps: the message ends inside NAME". */
MUST_CHECK enum status wire_ends_inside(const char *name, struct error *error);

/* The sub-message or bytes of a WIRE_BYTES field as a cursor of its own. */
static inline struct wire_cursor wire_cursor_content(const struct wire_cursor *cursor,
                                                     const struct wire_field *field) {
  struct wire_cursor content = *cursor;
  content.left = field->bytes;
  return content;
}

/* Reads one Steps.episode from its content (wire_episode.c). */
MUST_CHECK enum status wire_read_episode(struct wire_episode *episode, struct wire_cursor content,
                                         int num_environments, struct error *error);

/* ---- writing; the caller has made room */

static inline uint8_t *wire_put_varint(uint8_t *out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *out++ = (uint8_t)(value | 0x80);
  *out++ = (uint8_t)value;
  return out;
}

static inline uint8_t *wire_put_tag(uint8_t *out, uint32_t number, enum wire_type type) {
  return wire_put_varint(out, (uint64_t)number << 3 | type);
}

static inline uint8_t *wire_put_bytes(uint8_t *out, const void *data, size_t bytes) {
  if (bytes > 0) memcpy(out, data, bytes);
  return out + bytes;
}

#endif
