/* Kernels in which each warp works on a row of its own.
 * Upstream: learner/device/cuda. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_WARPS_H
#define ACORN_LEARNER_DEVICE_CUDA_WARPS_H

#include "learner/device/cuda/portable.h"

enum { WARPS = BLOCK / WARP }; /* of a block of BLOCK threads */

DEVICE int lane_of_warp() {
  return (int)(threadIdx.x % WARP);
}

DEVICE int warp_of_block() {
  return (int)(threadIdx.x / WARP);
}

/* The row of this warp, in a grid of blocks_of_rows. */
DEVICE size_t row_of_warp() {
  return (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
}

static inline unsigned blocks_of_rows(size_t rows) {
  return (unsigned)((rows + WARPS - 1) / WARPS);
}

/* Of this lane and those below. */
DEVICE float warp_sum_so_far(float x) {
  for (int distance = 1; distance < WARP; distance *= 2) {
    float below = __shfl_up_sync(ALL_LANES, x, distance);
    if (lane_of_warp() >= distance) x += below;
  }
  return x;
}

#endif
