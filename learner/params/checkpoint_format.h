/* The bytes of a checkpoint file (layout: checkpoint.h), without files: from items to a header,
 * from bytes to entries.
 * Upstream: checkpoint_file.c. Thread: any (no state).
 * Invariant: checkpoint_decode accepts exactly the bytes that a writer makes: every bit of them is
 * a magic, covered by a checksum, a checksum itself, or padding that must be zero. */
#ifndef ACORN_LEARNER_PARAMS_CHECKPOINT_FORMAT_H
#define ACORN_LEARNER_PARAMS_CHECKPOINT_FORMAT_H

#include "learner/params/checkpoint.h"

enum {
  CHECKPOINT_ALIGNMENT = 64,
  /* An upper bound of the header's size: 16 bytes, entries of at most 112, a checksum, padding. */
  CHECKPOINT_HEADER_ROOM = 16 + CHECKPOINT_MAX_ITEMS * 112 + 4 + CHECKPOINT_ALIGNMENT,
};

/* One array of a file. item.data is NULL. */
struct checkpoint_entry {
  struct checkpoint_item item;
  uint64_t bytes, at; /* of its data, in the file */
  uint32_t crc;
  const uint8_t *data; /* in the bytes that were decoded; NULL: only the header was */
};

struct checkpoint_directory {
  struct checkpoint_entry entry[CHECKPOINT_MAX_ITEMS];
  int count;
};

/* Writes everything before the data of the first item, padding included; returns its size, a
 * multiple of 64. Reads the items' data once, for the checksums.
 * Errors: a name that is empty, not printable or there twice is a CHECK. */
size_t checkpoint_encode_header(uint8_t header[CHECKPOINT_HEADER_ROOM],
                                const struct checkpoint_item *items, int num_items);

/* Zeros that follow `bytes` bytes, up to a multiple of 64. */
size_t checkpoint_padding(uint64_t bytes);

/* Whether they begin with the magic. */
bool checkpoint_has_magic(const uint8_t *bytes, size_t size);

/* Checks the header, which the file's first `size` bytes hold if it is one. *end: where the data
 * ends, and the file should.
 * Errors: CORRUPT, with what is wrong and at which byte. */
MUST_CHECK enum status checkpoint_decode_header(struct checkpoint_directory *directory,
                                                uint64_t *end, const uint8_t *bytes, size_t size,
                                                struct error *error);

/* Checks everything, checksums of the data included.
 * Errors: CORRUPT, with what is wrong and at which byte. */
MUST_CHECK enum status checkpoint_decode(struct checkpoint_directory *directory,
                                         const uint8_t *bytes, size_t size, struct error *error);

#endif
