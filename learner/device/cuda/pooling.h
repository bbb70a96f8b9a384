/* Which windows reach a pixel, for the way back through pooling.
 * Upstream: pixels.cu, conv_tiles.h. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_POOLING_H
#define ACORN_LEARNER_DEVICE_CUDA_POOLING_H

#include "learner/device/cuda/wide.h"

/* The first and the last of the windows along a side that reach a place; before: zeros in front of
 * the side. */
DEVICE int first_window(int place, int before, int size, const struct divisor &stride) {
  int reach = place + before - size + (int)stride.by;
  return reach < 0 ? 0 : divide(reach, stride).whole;
}

DEVICE int last_window(int place, int before, const struct divisor &stride, int windows) {
  int last = divide(place + before, stride).whole;
  return last < windows ? last : windows - 1;
}

#endif
