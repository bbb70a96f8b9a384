#include "common/base/crc32c.h"

#include <pthread.h>
#include <string.h>

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

enum { SLICES = 8 };
#define POLYNOMIAL_REVERSED 0x82f63b78u

/* table[k][b]: what byte b contributes when k bytes follow it. Written once. */
static uint32_t table[SLICES][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL_REVERSED : 0);
    table[0][byte] = crc;
  }
  for (int k = 1; k < SLICES; k++)
    for (int byte = 0; byte < 256; byte++)
      table[k][byte] = table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 255];
}

/* Eight bytes, first in memory first in value, whatever the machine's own order. */
static uint64_t load_little_endian(const uint8_t *at) {
  uint64_t word = 0;
  for (int i = 7; i >= 0; i--) word = word << 8 | at[i];
  return word;
}

uint32_t crc32c_extend_tables(uint32_t crc, const void *bytes, size_t count) {
  pthread_once(&table_once, fill_table);
  const uint8_t *at = bytes;
  crc = ~crc;
  for (; count >= SLICES; at += SLICES, count -= SLICES) {
    uint64_t word = load_little_endian(at) ^ crc;
    crc = 0;
    for (int i = 0; i < SLICES; i++) crc ^= table[SLICES - 1 - i][word >> 8 * i & 255];
  }
  for (; count > 0; at++, count--) crc = crc >> 8 ^ table[0][(crc ^ *at) & 255];
  return ~crc;
}

#ifdef __SSE4_2__
uint32_t crc32c_extend(uint32_t crc, const void *bytes, size_t count) {
  const uint8_t *at = bytes;
  uint64_t wide = ~crc;
  for (; count >= sizeof(uint64_t); at += sizeof(uint64_t), count -= sizeof(uint64_t)) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = (uint32_t)wide;
  for (; count > 0; at++, count--) crc = _mm_crc32_u8(crc, *at);
  return ~crc;
}
#else
uint32_t crc32c_extend(uint32_t crc, const void *bytes, size_t count) {
  return crc32c_extend_tables(crc, bytes, count);
}
#endif

uint32_t crc32c(const void *bytes, size_t count) {
  return crc32c_extend(0, bytes, count);
}
