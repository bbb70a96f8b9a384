/* One pass over the gradient dy (rows, O) of a layer's output: through the activation, and the sums
 * of its columns, which are the gradient of the bias.
 * Upstream: linear.cu, conv_columns.cu. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_COLUMNS_H
#define ACORN_LEARNER_DEVICE_CUDA_COLUMNS_H

#include "learner/device/cuda/cuda.h"

struct columns {
  float *dy;      /* (rows, O), in place */
  const float *y; /* (rows, O): the output */
  float *sum;     /* (O) */
  bf16 *low;      /* (rows, low_stride): a copy of the gradient; NULL: none */
  int low_stride;
  enum activation act;
  bool add; /* to sum */
  size_t rows;
  int O;
};

/* Bytes of `room` that the pass needs, a multiple of 256. */
size_t columns_bytes(const struct cuda *cuda, const struct columns *columns);
void cuda_turn_columns(struct cuda *cuda, const struct columns *columns, void *room);

#endif
