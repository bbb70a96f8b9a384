/* Counter-based uniforms: operation random_uniforms. Part of cpu_kernels.c. The
 * block function of common/base/random.c, a row in each lane. Whole numbers throughout, so every
 * device draws the same. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_RANDOM_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_RANDOM_H

#include "common/base/philox.h"
#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_transpose.h"

/* x * m in 64 bits a lane: the products of even and of odd lanes, dealt out into halves. */
INLINE void multiply_wide(vi *high, vi *low, vi x, uint32_t m) {
  vi factor = splat_int((int32_t)m);
  vi even = multiply_even(x, factor), odd = multiply_even(odd_to_even(x), factor);
  *low = __builtin_shuffle(even, odd, LANES(LOW_LANE, 1));
  *high = __builtin_shuffle(even, odd, LANES(HIGH_LANE, 1));
}

/* The first word of the block of each lane's counter (c0, c1, c2, c3). */
INLINE vi philox_first_word(vi c0, vi c1, vi c2, vi c3, uint64_t seed) {
  uint32_t key_0 = (uint32_t)seed, key_1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < RANDOM_ROUNDS; round++) {
    vi high_0, low_0, high_1, low_1;
    multiply_wide(&high_0, &low_0, c0, RANDOM_MULTIPLIER_0);
    multiply_wide(&high_1, &low_1, c2, RANDOM_MULTIPLIER_1);
    c0 = high_1 ^ c1 ^ splat_int((int32_t)key_0);
    c1 = low_1;
    c2 = high_0 ^ c3 ^ splat_int((int32_t)key_1);
    c3 = low_0;
    key_0 += RANDOM_WEYL_0;
    key_1 += RANDOM_WEYL_1;
  }
  return c0;
}

/* Of rows b and after. */
INLINE vf uniforms_of(uint64_t seed, const struct device_draws *draws, enum random_purpose purpose,
                      int b, int lanes) {
  vi word = philox_first_word(load_int_some((const int32_t *)draws->step + b, lanes),
                              load_int_some((const int32_t *)draws->life + b, lanes),
                              load_int_some((const int32_t *)draws->environment + b, lanes),
                              splat_int((int32_t)purpose), seed);
  vi upper = (word >> 8) & 0xffffff; /* what a float holds exactly */
  vi greedy = load_bytes_some(draws->greedy + b, lanes);
  vf drawn = __builtin_convertvector(upper, vf) * 0x1p-24f;
  return select_equal(greedy, (vi){0}, drawn, splat(-1));
}

static void random_uniforms(struct device *d, float *uniform, uint64_t seed,
                            const struct device_draws *draws, enum random_purpose purpose, int B) {
  int count = draws->count;
  (void)d;
  for (int b = 0; b < B; b += W) {
    int lanes = B - b < W ? B - b : W;
    for (int k = 0; k < count; k++) {
      vf drawn = uniforms_of(seed, draws, philox_purpose(purpose, k), b, lanes);
      float *y = uniform + (size_t)b * (size_t)count + k;
      if (count == 1)
        store_some(y, drawn, lanes);
      else
        for (int i = 0; i < lanes; i++) y[(size_t)i * (size_t)count] = drawn[i];
    }
  }
}

#endif
