/* block_reader on any bytes. A mutator of our own puts the right checksum behind what it has made,
 * or nothing but refusals would ever be reached. What is accepted must be what a writer writes of
 * the content. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/block_file.h"
#include "common/base/crc32c.h"
#include "tests/fuzz/fuzz_file.h"

enum { CHECKSUM_BYTES = 4, ROOM = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* In pieces whose sizes the content decides. Returns how much of it was read. */
static size_t read_all(struct block_reader *reader, uint8_t *to, size_t size, enum status *status) {
  size_t at = 0;
  struct error error;
  while (*status == STATUS_OK && at < size) {
    size_t piece = at ? to[at - 1] + 1u : 1, count = piece < size - at ? piece : size - at;
    *status = block_reader_get(reader, to + at, count, &error);
    if (*status == STATUS_OK) at += count;
  }
  if (*status == STATUS_OK) *status = block_reader_end(reader, &error);
  return at;
}

/* Inputs are shorter than a block: the checksum is behind the content. */
static void check_accepted(const uint8_t *data, size_t size, const uint8_t *content, size_t read) {
  uint32_t crc = crc32c(content, read);
  if (read + CHECKSUM_BYTES != size) abort();
  if (memcmp(data, content, read) != 0 || memcmp(data + read, &crc, CHECKSUM_BYTES) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t content[ROOM];
  static struct block_reader *reader;
  struct error error;
  if (!reader) reader = block_reader_create();
  if (size > ROOM) return 0;
  enum status status = block_reader_begin(reader, fuzz_file(data, size), &error);
  if (status != STATUS_OK) abort();
  size_t expected = size > CHECKSUM_BYTES ? size - CHECKSUM_BYTES : 1;
  size_t read = read_all(reader, content, expected, &status);
  if (status == STATUS_OK)
    check_accepted(data, size, content, read);
  else if (status != STATUS_CORRUPT)
    abort();
  block_reader_close(reader);
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 4 && size > CHECKSUM_BYTES) {
    uint32_t crc = crc32c(data, size - CHECKSUM_BYTES);
    memcpy(data + size - CHECKSUM_BYTES, &crc, CHECKSUM_BYTES);
  }
  return size;
}
