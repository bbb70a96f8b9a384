/* 16-byte loads and stores, and fast divisions of indices, for memory-bound kernels.
 * Upstream: learner/device/cuda. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_WIDE_H
#define ACORN_LEARNER_DEVICE_CUDA_WIDE_H

#include "learner/device/cuda/portable.h"

/* V elements that are read and written together. */
template <typename P, int V>
struct alignas(V * sizeof(P)) pack {
  P at[V];
};

template <typename P, int V>
DEVICE pack<P, V> load_pack(const P *x) {
  return *(const pack<P, V> *)x;
}

template <typename P, int V>
DEVICE void store_pack(P *y, const pack<P, V> &values) {
  *(pack<P, V> *)y = values;
}

/* Elements of 16 bytes. */
template <typename P>
constexpr int WIDE = 16 / (int)sizeof(P);

static inline bool is_aligned(const void *x, size_t bytes = 16) {
  return (uintptr_t)x % bytes == 0;
}

/* 4 bytes of whatever an array is of. memcpy would go byte by byte. */
typedef uint32_t __attribute__((may_alias)) any_word;

DEVICE uint32_t load_word(const void *x, size_t i) {
  return ((const any_word *)x)[i];
}

DEVICE void store_word(void *y, size_t i, uint32_t value) {
  ((any_word *)y)[i] = value;
}

/* i / n and i % n. Most indices fit 32 bits, which are divided several times as fast. */
struct quotient {
  size_t whole;
  unsigned rest;
};

DEVICE quotient divide(size_t i, unsigned n) {
  if (i >> 32 == 0) return {(unsigned)i / n, (unsigned)i % n};
  return {i / n, (unsigned)(i % n)};
}

/* A divisor that a kernel gets as an argument: n / by by one multiplication, where the division of
 * numbers that the compiler does not know takes some twenty instructions. For 0 <= n < 2^31 and
 * by >= 1 (Granlund, Montgomery 1994, "Division by Invariant Integers using Multiplication",
 * theorem 4.2: the multiplier is 2^(31 + shift) / by, rounded up, with by <= 2^shift). */
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

DEVICE split divide(int n, const struct divisor &d) {
  unsigned whole = (unsigned)((uint64_t)(2 * (unsigned)n) * d.multiplier >> 32) >> d.shift;
  return {(int)whole, n - (int)(whole * d.by)};
}

/* The same of any index. */
DEVICE quotient divide(size_t i, const struct divisor &d) {
  if (i >> 31 != 0) return {i / d.by, (unsigned)(i % d.by)};
  struct split split = divide((int)i, d);
  return {(size_t)split.whole, (unsigned)split.rest};
}

#endif
