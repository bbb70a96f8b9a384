/* Arrays by name in a safetensors file: the length of a header (u64, little-endian), the header (a
 * JSON object: "__metadata__" with texts, and dtype, shape and place of each array), the arrays.
 *
 * Arrays are float32, and stand in the file in the order of their names in the header.
 * Upstream: deploy/inspect/export/export.c, deploy/inspect/parameters.c, deploy/python/policy.c,
 * learner/params/named.c. Downstream: jansson. Thread: one per file.
 * Invariant: a reader uses no length or place of the header that it has not checked. */
#ifndef ACORN_COMMON_BASE_SAFETENSORS_H
#define ACORN_COMMON_BASE_SAFETENSORS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum { SAFETENSORS_MAX_HEADER_BYTES = 16 << 20 };
#define SAFETENSORS_METADATA "__metadata__" /* no array's name */

/* All borrowed. */
struct safetensor {
  const char *name;
  int rank;
  const int *shape;  /* (rank) */
  const float *data; /* of that shape, C order */
};

/* The bytes of such a file, *size of them. metadata: an object of texts. Owner: the caller, with
 * free(). */
uint8_t *safetensors_pack(size_t *size, const struct safetensor *tensors, int count,
                          json_t *metadata);

/* Writes them. A file that is there already is replaced once the new one is whole.
 * The same arrays and texts give the same bytes. Errors: IO, with the path and the reason. */
MUST_CHECK enum status safetensors_write(const char *path, const struct safetensor *tensors,
                                         int count, json_t *metadata, struct error *error);
/* The same of bytes that are such a file. */
MUST_CHECK enum status safetensors_write_bytes(const char *path, const uint8_t *bytes, size_t size,
                                               struct error *error);

struct safetensors {
  uint8_t *file; /* heap; NULL: the bytes are the caller's */
  json_t *header;
  const uint8_t *data; /* what follows the header */
  size_t bytes;        /* of it */
};

/* Owner: the caller, with safetensors_close, also after an error. Errors: NOT_FOUND, IO; INVALID:
 * it is no such file, with the reason. */
MUST_CHECK enum status safetensors_open(struct safetensors *out, const char *path,
                                        struct error *error);
/* The same of bytes in memory, which have to stay: what the fuzzer calls. A longer header than
 * max_header bytes is refused before it is parsed, which takes up to 80 times as much memory. */
MUST_CHECK enum status safetensors_parse(struct safetensors *out, const uint8_t *bytes, size_t size,
                                         size_t max_header, struct error *error);
void safetensors_close(struct safetensors *file);

/* A text of the metadata; NULL: there is none of that name. Borrowed. */
const char *safetensors_text(const struct safetensors *file, const char *key);
/* Copies an array, whose data is ignored, to `out`. Errors: INVALID: there is none of that name, or
 * it has another shape or dtype. */
MUST_CHECK enum status safetensors_take(const struct safetensors *file, float *out,
                                        const struct safetensor *tensor, struct error *error);

#endif
