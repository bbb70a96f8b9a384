/* What a served model takes and gives: names, types and shapes of its tensors, and where each
 * stands in a row of inputs or outputs. It is fixed when the model is opened, so that a new version
 * never surprises a client.
 *
 * Upstream: deploy/serve. Thread: any (plain data, zeroed, so that two are compared by memcmp). */
#ifndef ACORN_DEPLOY_SERVE_SIGNATURE_H
#define ACORN_DEPLOY_SERVE_SIGNATURE_H

#include "common/base/space.h"

enum tensor_type { TENSOR_UINT8, TENSOR_INT32, TENSOR_INT64, TENSOR_FLOAT32, TENSOR_TYPES };

enum {
  SIGNATURE_MAX_INPUTS = SPACE_MAX_TENSORS + 1,
  SIGNATURE_MAX_OUTPUTS = 4,
  SIGNATURE_NAME_BYTES = SPACE_NAME_BYTES
};

struct tensor {
  char name[SIGNATURE_NAME_BYTES];
  enum tensor_type type;
  int rank; /* without the batch */
  int shape[SPACE_MAX_RANK];
  size_t count, bytes; /* of a row: numbers, and bytes */
  size_t offset;       /* in a row */
};

struct signature {
  int num_inputs, num_outputs;
  struct tensor input[SIGNATURE_MAX_INPUTS], output[SIGNATURE_MAX_OUTPUTS];
  size_t input_bytes, output_bytes; /* of a row of all */
  int mask;       /* the input that may be left out: all may be chosen; -1: none */
  bool remembers; /* a row depends on those before it: a request names its sequence */
};

/* What the Open Inference Protocol calls a type ("FP32"), and the bytes of a number. */
static inline const char *tensor_type_name(enum tensor_type type) {
  static const char *const names[TENSOR_TYPES] = {"UINT8", "INT32", "INT64", "FP32"};
  return names[type];
}
static inline size_t tensor_type_bytes(enum tensor_type type) {
  return type == TENSOR_UINT8 ? 1 : type == TENSOR_INT64 ? 8 : 4;
}

/* Appends a tensor to a row of *row_bytes so far; offsets are multiples of 8. */
static inline void signature_add(struct tensor *tensor, size_t *row_bytes, const char *name,
                                 enum tensor_type type, int rank, const int *shape) {
  tensor->type = type;
  tensor->rank = rank;
  tensor->count = 1;
  for (size_t i = 0; name[i] && i < sizeof(tensor->name) - 1; i++) tensor->name[i] = name[i];
  for (int i = 0; i < rank; i++) tensor->count *= (size_t)(tensor->shape[i] = shape[i]);
  tensor->bytes = tensor->count * tensor_type_bytes(type);
  tensor->offset = (*row_bytes + 7) / 8 * 8;
  *row_bytes = tensor->offset + tensor->bytes;
}

#endif
