/* Philox4x32, and the numbers that random.h makes of its blocks, as inline functions that GPU
 * kernels can call too: one source, so that every device draws the same bits. Host code calls
 * random.h. Source: Salmon et al. 2011.
 * Upstream: common/base/random.c, learner/device/cuda. Thread: any. */
#ifndef ACORN_COMMON_BASE_PHILOX_H
#define ACORN_COMMON_BASE_PHILOX_H

#include <math.h>
#include <stdint.h>

#include "common/base/random.h"

#ifdef __CUDACC__
#define PHILOX_FUNCTION static inline __host__ __device__
#else
#define PHILOX_FUNCTION static inline
#endif

PHILOX_FUNCTION void philox4x32(uint32_t out[4], const uint32_t counter[4], uint64_t key) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t key_0 = (uint32_t)key, key_1 = (uint32_t)(key >> 32);
  for (int round = 0; round < RANDOM_ROUNDS; round++) {
    uint64_t product_0 = (uint64_t)RANDOM_MULTIPLIER_0 * c0;
    uint64_t product_1 = (uint64_t)RANDOM_MULTIPLIER_1 * c2;
    c0 = (uint32_t)(product_1 >> 32) ^ c1 ^ key_0;
    c1 = (uint32_t)product_1;
    c2 = (uint32_t)(product_0 >> 32) ^ c3 ^ key_1;
    c3 = (uint32_t)product_0;
    key_0 += RANDOM_WEYL_0;
    key_1 += RANDOM_WEYL_1;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* The purpose of number k of several that are drawn for one: that of number 0 is itself. */
PHILOX_FUNCTION enum random_purpose philox_purpose(enum random_purpose purpose, int k) {
  return (enum random_purpose)((int)purpose | k << 8);
}

/* As random_bits, random_uniform and random_normal. */
PHILOX_FUNCTION uint64_t philox_bits(uint64_t seed, uint32_t environment, uint32_t life,
                                     uint32_t step, enum random_purpose purpose) {
  const uint32_t counter[4] = {step, life, environment, (uint32_t)purpose};
  uint32_t block[4];
  philox4x32(block, counter, seed);
  return (uint64_t)block[1] << 32 | block[0];
}

PHILOX_FUNCTION float philox_uniform(uint64_t seed, uint32_t environment, uint32_t life,
                                     uint32_t step, enum random_purpose purpose) {
  // The upper 24 bits of the block's first word: what a float holds exactly.
  uint32_t word = (uint32_t)philox_bits(seed, environment, life, step, purpose);
  return (float)(word >> 8) * 0x1p-24f;
}

PHILOX_FUNCTION double philox_normal(uint64_t seed, uint32_t stream, uint32_t i,
                                     enum random_purpose purpose) {
  const uint32_t counter[4] = {i, 0, stream, (uint32_t)purpose};
  uint32_t block[4];
  philox4x32(block, counter, seed);

  // Two uniforms of 53 bits; the first in (0, 1], so that its logarithm is finite.
  uint64_t a = (uint64_t)block[1] << 32 | block[0], b = (uint64_t)block[3] << 32 | block[2];
  double radius_uniform = (double)((a >> 11) + 1) * 0x1p-53;
  double angle_uniform = (double)(b >> 11) * 0x1p-53;
  return sqrt(-2 * log(radius_uniform)) * cos(2 * M_PI * angle_uniform);
}

#endif
