/* Division by numbers that the host knows and the compiler does not: one multiplication, where a
 * kernel's division takes some twenty instructions. C too, so that a test can go through it.
 * Upstream: wide.h. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_DIVISOR_H
#define ACORN_LEARNER_DEVICE_CUDA_DIVISOR_H

#include <stdint.h>

#ifdef __cplusplus
#include "learner/device/cuda/portable.h"
#else
#define HOST_AND_DEVICE static inline
#endif

/* Of 0 <= n < 2^31 by 1 <= by < 2^31 (Granlund, Montgomery 1994, "Division by Invariant Integers
 * using Multiplication", theorem 4.2: the multiplier is 2^(31 + shift) / by, rounded up, with by <=
 * 2^shift). */
struct divisor {
  unsigned by, multiplier, shift;
};

static inline struct divisor divisor_of(int by) {
  struct divisor d = {(unsigned)by, 0, 0};
  while (1ull << d.shift < d.by) d.shift++;
  d.multiplier = (unsigned)(((1ull << (31 + d.shift)) + d.by - 1) / d.by);
  return d;
}

struct split {
  int whole, rest;
};

/* n / by and n % by. */
HOST_AND_DEVICE struct split divide(int n, struct divisor d) {
  unsigned whole = (unsigned)((uint64_t)(2 * (unsigned)n) * d.multiplier >> 32) >> d.shift;
  struct split split = {(int)whole, n - (int)(whole * d.by)};
  return split;
}

#endif
