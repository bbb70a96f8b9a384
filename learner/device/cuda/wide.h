/* 16-byte loads and stores, and fast divisions of indices, for memory-bound kernels.
 * Upstream: learner/device/cuda. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_WIDE_H
#define ACORN_LEARNER_DEVICE_CUDA_WIDE_H

#include "learner/device/cuda/divisor.h"
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

HOST_AND_DEVICE bool is_aligned(const void *x, size_t bytes = 16) {
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

/* The same by a divisor that the host prepared. */
DEVICE quotient divide(size_t i, const struct divisor &d) {
  if (i >> 31 != 0) return {i / d.by, (unsigned)(i % d.by)};
  struct split split = divide((int)i, d);
  return {(size_t)split.whole, (unsigned)split.rest};
}

#endif
