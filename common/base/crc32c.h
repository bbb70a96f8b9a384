/* CRC-32C (Castagnoli), the checksum of checkpoints and of TensorBoard's event files.
 * Source: RFC 3720, appendix B.4 (its test vectors); the polynomial is 0x1EDC6F41, bits reversed,
 * both ends inverted.
 * Thread: any. */
#ifndef ACORN_COMMON_BASE_CRC32C_H
#define ACORN_COMMON_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of `count` bytes. */
uint32_t crc32c(const void *bytes, size_t count);

/* The checksum of what `crc` is the checksum of (0: of nothing), followed by `count` bytes more. */
uint32_t crc32c_extend(uint32_t crc, const void *bytes, size_t count);

/* The same by tables, on machines without the instruction (and in the test, to compare with). */
uint32_t crc32c_extend_tables(uint32_t crc, const void *bytes, size_t count);

#endif
