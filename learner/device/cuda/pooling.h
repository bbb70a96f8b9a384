/* Which windows reach a pixel, for the way back through pooling.
 * Upstream: pixels.cu, conv_tiles.h. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_POOLING_H
#define ACORN_LEARNER_DEVICE_CUDA_POOLING_H

#include "learner/device/cuda/portable.h"

/* The first and the last of the windows along a side that reach a place; before: zeros in front of
 * the side. */
DEVICE int first_window(int place, int before, int size, int stride) {
  int reach = place + before - size + stride;
  return reach < 0 ? 0 : reach / stride;
}

DEVICE int last_window(int place, int before, int stride, int windows) {
  int last = (place + before) / stride;
  return last < windows ? last : windows - 1;
}

#endif
