/* The matrix instructions of learner/device/cuda/warp_matrix.h for the CPU: lanes lay down what
 * they hold, meet, and read what they need. */
#ifndef ACORN_TESTS_EMULATED_CUDA_WARP_MATRIX_EMULATED_H
#define ACORN_TESTS_EMULATED_CUDA_WARP_MATRIX_EMULATED_H

#include <stdlib.h>

#include "learner/device/cuda/portable.h"

struct emulated_matrix_lane {
  const bf16 *row;
  unsigned a[4], b[2];
};

/* What the lanes of this warp have laid down. */
static inline struct emulated_matrix_lane *emulated_matrix_lanes() {
  static thread_local struct emulated_matrix_lane lanes[32][32];
  unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  return lanes[thread / 32];
}

static inline unsigned emulated_pair(bf16 low, bf16 high) {
  return (unsigned)low.bits | (unsigned)high.bits << 16;
}

static inline float emulated_half(unsigned pair, int which) {
  bf16 x = {(uint16_t)(which ? pair >> 16 : pair & 0xffff)};
  return to_float(x);
}

static inline void emulated_load(unsigned y[4], const bf16 *row, bool transposed) {
  struct emulated_matrix_lane *lanes = emulated_matrix_lanes();
  int lane = emulated_lane(), group = lane / 4, column = 2 * (lane % 4);
  if ((uintptr_t)row % 16 != 0) abort(); /* the instruction needs whole words of 16 bytes */
  lanes[lane].row = row;
  __syncwarp();
  for (int m = 0; m < 4; m++)
    y[m] =
        transposed
            ? emulated_pair(lanes[8 * m + column].row[group], lanes[8 * m + column + 1].row[group])
            : emulated_pair(lanes[8 * m + group].row[column], lanes[8 * m + group].row[column + 1]);
  __syncwarp();
}

static inline void load_matrices(unsigned y[4], const bf16 *row) {
  emulated_load(y, row, false);
}

static inline void load_transposed(unsigned y[4], const bf16 *row) {
  emulated_load(y, row, true);
}

/* Of this warp's lanes, from here to the next meeting. */
static inline const struct emulated_matrix_lane *emulated_operands(const unsigned a[4],
                                                                   const unsigned b[2]) {
  struct emulated_matrix_lane *lanes = emulated_matrix_lanes(), *mine = lanes + emulated_lane();
  memcpy(mine->a, a, sizeof mine->a);
  memcpy(mine->b, b, sizeof mine->b);
  __syncwarp();
  return lanes;
}

static inline void multiply_add(float sum[4], const unsigned a[4], const unsigned b[2]) {
  const struct emulated_matrix_lane *lanes = emulated_operands(a, b);
  int lane = emulated_lane();
  for (int i = 0; i < 4; i++) {
    int group = lane / 4, upper = i / 2, column = 2 * (lane % 4) + i % 2;
    for (int k = 0; k < 16; k++) {
      const struct emulated_matrix_lane *left = &lanes[4 * group + k % 8 / 2],
                                        *right = &lanes[4 * column + k % 8 / 2];
      sum[i] += emulated_half(left->a[upper + 2 * (k / 8)], k % 2) *
                emulated_half(right->b[k / 8], k % 2);
    }
  }
  __syncwarp();
}

/* To nearest, ties away from 0. */
static inline unsigned to_tf32(float x) {
  unsigned bits = __float_as_uint(x);
  return isfinite(x) ? (bits + 0x1000) & ~0x1fffu : bits;
}

/* The instruction reads 10 bits behind the point, whatever follows them. */
static inline float emulated_tf32(unsigned bits) {
  return __uint_as_float(bits & ~0x1fffu);
}

static inline void multiply_add_tf32(float sum[4], const unsigned a[4], const unsigned b[2]) {
  const struct emulated_matrix_lane *lanes = emulated_operands(a, b);
  int lane = emulated_lane();
  for (int i = 0; i < 4; i++) {
    int group = lane / 4, upper = i / 2, column = 2 * (lane % 4) + i % 2;
    for (int k = 0; k < 8; k++)
      sum[i] += emulated_tf32(lanes[4 * group + k % 4].a[upper + 2 * (k / 4)]) *
                emulated_tf32(lanes[4 * column + k % 4].b[k / 4]);
  }
  __syncwarp();
}

static inline unsigned pack_bf16(float low, float high) {
  return emulated_pair(to_bf16(low), to_bf16(high));
}

/* Blocks run one after another, so none ever waits for another: see blocks_together. */
static inline uint4 load_from_grid(const void *at) {
  return *(const uint4 *)at;
}

static inline void arrive(unsigned *count) {
  __atomic_fetch_add(count, 1u, __ATOMIC_RELEASE);
}

static inline void wait_for(unsigned *count, unsigned goal) {
  unsigned now = __atomic_load_n(count, __ATOMIC_ACQUIRE);
  if (now < goal) emulated_endless_wait(now, goal);
}

template <typename K>
static inline unsigned blocks_together(const struct cudaDeviceProp *, K, unsigned, size_t) {
  return 0;
}

#define LAUNCH_TOGETHER(kernel, grid, block, bytes, stream, argument) \
  LAUNCH_SHARED(kernel, grid, block, bytes, stream, argument)

#endif
