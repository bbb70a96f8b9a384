/* Linear layers of at most 64 inputs and outputs, as the networks of control tasks have. The
 * weights stay in shared memory; a pass forwards is one kernel, a pass backwards two. In float,
 * whatever the precision. Upstream: linear.cu. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_SMALL_H
#define ACORN_LEARNER_DEVICE_CUDA_SMALL_H

#include "learner/device/cuda/cuda.h"

/* Arguments as in device.h. */
struct small_layer {
  float *y; /* read backwards */
  float *dx, *dw, *db, *dy;
  const float *x, *w, *b;
  int x_stride;
  enum activation act;
  int B, I, O;
};

bool small_takes(int I, int O);
void small_forward(struct cuda *cuda, const struct small_layer *l);
void small_backward(struct cuda *cuda, const struct small_layer *l);

#endif
