/* checkpoint_parse on any bytes. A mutator of our own begins from whole files and repairs the
 * header's checksum after a mutation, or nothing behind it would ever be reached. What is accepted
 * must be accepted again, and refused with any one bit turned. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "learner/params/checkpoint_format.h"

enum { FLOATS = 3, BYTES = 5, ROOM = 4096, HEADER_START = 16, DATA_ROOM = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static uint8_t floats[DATA_ROOM], bytes[DATA_ROOM];

static const struct checkpoint_item wanted[] = {
    {.name = "a", .dtype = CHECKPOINT_FLOAT32, .rank = 1, .shape = {FLOATS}, .data = floats},
    {.name = "b", .dtype = CHECKPOINT_BYTES, .rank = 2, .shape = {1, BYTES}, .data = bytes},
};

static enum status parse(const uint8_t *data, size_t size, int num_items) {
  struct checkpoint_item items[2] = {wanted[0], wanted[1]};
  struct error error = {""};
  enum status status = checkpoint_parse(data, size, items, num_items, &error);
  if ((status != STATUS_OK) != (error.text[0] != '\0')) abort();
  return status;
}

static void check_a_turned_bit(const uint8_t *data, size_t size) {
  static uint8_t copy[ROOM];
  if (size > ROOM) return;
  memcpy(copy, data, size);
  uint32_t bit = crc32c(data, size) % (uint32_t)(size * 8);
  copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
  if (parse(copy, size, 0) != STATUS_CORRUPT) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum status whole = parse(data, size, 0), matched = parse(data, size, 2);
  if (whole != STATUS_OK && whole != STATUS_CORRUPT) abort();
  if (whole == STATUS_CORRUPT && matched != STATUS_CORRUPT) abort();
  if (whole == STATUS_OK && matched == STATUS_CORRUPT) abort();
  if (whole == STATUS_OK) check_a_turned_bit(data, size);
  return 0;
}

/* A whole file with the arrays above. */
static size_t make(uint8_t *data, size_t max_size) {
  static uint8_t header[CHECKPOINT_HEADER_ROOM];
  size_t size = checkpoint_encode_header(header, wanted, 2),
         whole = size + 2 * CHECKPOINT_ALIGNMENT;
  if (whole > max_size) return 0;
  memcpy(data, header, size);
  memset(data + size, 0, whole - size);
  memcpy(data + size, floats, FLOATS * sizeof(float));
  memcpy(data + size + CHECKPOINT_ALIGNMENT, bytes, BYTES);
  return whole;
}

/* Where the header's checksum stands, by the lengths that the entries claim; 0 if that is outside.
 */
static size_t checksum_at(const uint8_t *data, size_t size) {
  uint32_t count;
  uint16_t length;
  size_t at = HEADER_START;
  if (size < at) return 0;
  memcpy(&count, data + 12, sizeof count);
  for (uint32_t i = 0; i < count && i < CHECKPOINT_MAX_ITEMS; i++) {
    if (size - at < sizeof length) return 0;
    memcpy(&length, data + at, sizeof length);
    if (size - at < (size_t)length + 4) return 0;
    at += (size_t)length + 4;
    size_t rest = data[at - 1] * sizeof(uint64_t) + 12;
    if (size - at < rest) return 0;
    at += rest;
  }
  return size - at < sizeof(uint32_t) ? 0 : at;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 16 == 0) {
    size_t whole = make(data, max_size);
    if (whole) size = whole;
    if (seed % 32 == 0) return size;
  }
  size = LLVMFuzzerMutate(data, size, max_size);
  size_t at = seed % 8 ? checksum_at(data, size) : 0;
  if (at) {
    uint32_t crc = crc32c(data, at);
    memcpy(data + at, &crc, sizeof crc);
  }
  return size;
}
