/* Reading protobuf's encoding from a message that lies in several pieces, and writing it into
 * one. For wire*.c; its writers of a tag and a varint serve deploy/serve/rpc.c, too.
 *
 * Invariant: `left` is the number of bytes that may still be read, never more than lie ahead of
 * the cursor; a read that does not fit fails and nothing outside the pieces is touched. A
 * sub-message is read through a copy of the cursor whose `left` is the sub-message's length. */
#ifndef ACORN_COMMON_WIRE_WIRE_CURSOR_H
#define ACORN_COMMON_WIRE_WIRE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/status.h"
#include "common/wire/wire.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire_cursor {
  const struct wire_span *span; /* the piece under the cursor, valid while left > 0 */
  size_t offset;                /* in that piece */
  size_t left;                  /* bytes of the (sub-)message still ahead */
};

/* A field of a message, and where its content goes. */
struct wire_place {
  uint32_t number;
  enum wire_type type;
  void *out; /* of one that comes once, the last one counts: VARINT: uint32_t; FIXED64: 8 bytes;
                BYTES: a cursor. NULL: it may come often, wire_cursor_next returns at each */
  const char *name; /* "Steps.run_id" */
};

void wire_cursor_init(struct wire_cursor *cursor, const struct wire_span *spans, int num_spans);

/* Copies the next `bytes` bytes into `out`, or steps over them (out NULL). False: the message
 * ends before that. */
bool wire_cursor_read(struct wire_cursor *cursor, void *out, size_t bytes);

/* Reads the fields of a message into their places, and steps over those that have none, up to one
 * that may come often: its content goes to *content, and its place is returned in *place; NULL: the
 * message is over. A field may have several places, one for each type.
 * Errors: INVALID (ends in mid-field, number 0, groups, a type that is none of the field's, a
 * VARINT above 32 bits, which other readers cut off); the sentence starts with `message` ("Steps")
 * or the field's name. */
MUST_CHECK enum status wire_cursor_next(struct wire_cursor *cursor, const struct wire_place **place,
                                        struct wire_cursor *content,
                                        const struct wire_place *places, int num_places,
                                        const char *message, struct error *error);

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
