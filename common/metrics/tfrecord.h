/* The framing of TensorFlow's record files: length, checksum of the length, bytes, checksum of the
 * bytes. Both checksums are CRC-32C, rotated and offset so that a checksum of data that holds
 * checksums stays sound.
 * Source: TensorFlow's documentation of TFRecord ("TFRecords format details").
 * Upstream: common/metrics/tensorboard.c. Thread: any. */
#ifndef ACORN_COMMON_METRICS_TFRECORD_H
#define ACORN_COMMON_METRICS_TFRECORD_H

#include <stddef.h>
#include <stdint.h>

enum { TFRECORD_HEADER_BYTES = 12, TFRECORD_FOOTER_BYTES = 4 };

/* Writes header and footer around the `bytes` bytes that stand at record + TFRECORD_HEADER_BYTES.
 */
void tfrecord_frame(uint8_t *record, size_t bytes);

#endif
