/* Parameters by name, as the bytes of a safetensors file: what is got from a running learner, and
 * set in it.
 *
 * The names are those of a checkpoint, without "params/": so the network's are those that
 * scripts/export.sh writes. An algorithm's own begin with "own/".
 * Upstream: learner/run/run_parameters.c. Downstream: checkpoint.h, common/base/safetensors.h.
 * Thread: any. Invariant: after an error nothing that was unpacked may be used. */
#ifndef ACORN_LEARNER_PARAMS_NAMED_H
#define ACORN_LEARNER_PARAMS_NAMED_H

#include <stdbool.h>

#include "common/base/safetensors.h"
#include "learner/params/checkpoint.h"

/* The longest header has a place and a name of 63 bytes for each of 64 arrays, and metadata. */
enum { NAMED_MAX = 64, NAMED_MAX_HEADER_BYTES = 128 << 10 };

struct named {
  int count;
  size_t numbers; /* P, of all */
  size_t offset[NAMED_MAX];
  struct checkpoint_item item[NAMED_MAX]; /* names as in the file; data NULL */
};

/* Of a checkpoint's items (trainer_items), whose parameters lie one behind the other. */
void named_init(struct named *named, const struct checkpoint_item *items, int count);

/* The largest file that named_unpack has to do with. Units: bytes. */
size_t named_max_bytes(const struct named *named);

/* values: (P). The file's metadata has the number of updates. Owner: the caller, with free(). */
uint8_t *named_pack(const struct named *named, size_t *size, const float *values, int64_t updates);

/* Some or all parameters: values (P) gets those that are there, given (count) which they are.
 * Errors: INVALID: no such file, no array in it, a name that is no parameter's, another shape or
 * type, a number that training could not go on from. */
MUST_CHECK enum status named_unpack(const struct named *named, float *values, bool *given,
                                    const uint8_t *bytes, size_t size, struct error *error);

#endif
