/* CRC-32 as ZIP files have it (the polynomial 0x04C11DB7, bits reversed, both ends inverted).
 * Source: PKWARE's APPNOTE, 4.4.7; ITU-T V.42, 8.1.1.6.2. Thread: any. */
#ifndef ACORN_COMMON_BASE_CRC32_H
#define ACORN_COMMON_BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of what `crc` is the checksum of (0: of nothing), followed by `count` bytes more. */
uint32_t crc32_extend(uint32_t crc, const void *bytes, size_t count);

#endif
