/* Linear layers of at most 64 inputs and outputs, as the networks of control tasks have. Layers
 * that follow each other are launched together: each waits for the next one until another operation
 * is given. Forwards they are one kernel, backwards two. In float, whatever the precision.
 * Upstream: linear.cu; cuda.cu launches what waits. */
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
/* Those that wait. */
void small_launch(struct cuda *cuda);

#endif
