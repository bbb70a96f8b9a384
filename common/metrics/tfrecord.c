#include "common/metrics/tfrecord.h"

#include "common/base/crc32c.h"

enum { LENGTH_BYTES = 8, CHECKSUM_BYTES = 4 };

static void put_little_endian(uint8_t *at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t masked_checksum(const uint8_t *at, size_t bytes) {
  uint32_t crc = crc32c(at, bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void tfrecord_frame(uint8_t *record, size_t bytes) {
  put_little_endian(record, bytes, LENGTH_BYTES);
  put_little_endian(record + LENGTH_BYTES, masked_checksum(record, LENGTH_BYTES), CHECKSUM_BYTES);
  uint8_t *data = record + TFRECORD_HEADER_BYTES;
  put_little_endian(data + bytes, masked_checksum(data, bytes), CHECKSUM_BYTES);
}
