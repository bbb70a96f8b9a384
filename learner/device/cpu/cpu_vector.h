/* Vectors of W floats for the kernel sets: GNU vector types for arithmetic, and the few
 * operations that GNU C lacks, once per instruction set. The width follows the flags this is
 * compiled with. For cpu_kernels.c and its parts only. `part` versions touch only the first n
 * lanes of memory, 0 < n < W; the other lanes read as 0. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_VECTOR_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_VECTOR_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

enum { W = VECTOR_BYTES / 4 };
typedef float vf __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t vi __attribute__((vector_size(VECTOR_BYTES)));
/* The same, anywhere in memory. */
typedef float vf_any __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef int32_t vi_any __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef uint8_t bytes_any __attribute__((vector_size(VECTOR_BYTES / 4), aligned(1), may_alias));

INLINE vf load(const float *x) {
  return *(const vf_any *)x;
}

INLINE void store(float *y, vf x) {
  *(vf_any *)y = x;
}

INLINE vi load_int(const int32_t *x) {
  return *(const vi_any *)x;
}

INLINE vf splat(float x) {
  return x - (vf){0};
}

INLINE vi splat_int(int32_t x) {
  return x - (vi){0};
}

/* W bytes as whole numbers. */
INLINE vi load_bytes(const uint8_t *x) {
  return __builtin_convertvector(*(const bytes_any *)x, vi);
}

INLINE vi load_bytes_part(const uint8_t *x, int n) {
  uint8_t copy[W] = {0};
  memcpy(copy, x, (size_t)n);
  return load_bytes(copy);
}

#if defined(__AVX512F__)
INLINE __mmask16 first_lanes(int n) { /* n <= W */
  return (__mmask16)((1u << n) - 1);
}
INLINE vf load_part(const float *x, int n) {
  return (vf)_mm512_maskz_loadu_ps(first_lanes(n), x);
}
INLINE void store_part(float *y, vf x, int n) {
  _mm512_mask_storeu_ps(y, first_lanes(n), (__m512)x);
}
INLINE vf vmin(vf a, vf b) {
  return (vf)_mm512_min_ps((__m512)a, (__m512)b);
}
INLINE vf vmax(vf a, vf b) {
  return (vf)_mm512_max_ps((__m512)a, (__m512)b);
}
INLINE vf vsqrt(vf a) {
  return (vf)_mm512_sqrt_ps((__m512)a);
}
/* a < b ? x : y */
INLINE vf select_less(vf a, vf b, vf x, vf y) {
  return (vf)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ), (__m512)y,
                                  (__m512)x);
}
/* a == b ? x : y */
INLINE vf select_equal(vi a, vi b, vf x, vf y) {
  return (vf)_mm512_mask_blend_ps(_mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b), (__m512)y,
                                  (__m512)x);
}
/* Even lanes' products without sign, 64 bits each; and the odd lanes moved to even ones. */
INLINE vi multiply_even(vi a, vi b) {
  return (vi)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
INLINE vi odd_to_even(vi a) {
  return (vi)_mm512_srli_epi64((__m512i)a, 32);
}

/* x[0], x[stride], ... n of them, the rest 0; and back. */
INLINE vf load_column(const float *x, int stride, int n) {
  __m512i index =
      (__m512i)(splat_int(stride) * (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  return (vf)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), first_lanes(n), index, x, 4);
}
INLINE void store_column(float *y, int stride, vf x, int n) {
  __m512i index =
      (__m512i)(splat_int(stride) * (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  _mm512_mask_i32scatter_ps(y, first_lanes(n), index, (__m512)x, 4);
}

#elif defined(__AVX2__)
INLINE __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vf load_part(const float *x, int n) {
  return (vf)_mm256_maskload_ps(x, first_lanes(n));
}
INLINE void store_part(float *y, vf x, int n) {
  _mm256_maskstore_ps(y, first_lanes(n), (__m256)x);
}
INLINE vf vmin(vf a, vf b) {
  return (vf)_mm256_min_ps((__m256)a, (__m256)b);
}
INLINE vf vmax(vf a, vf b) {
  return (vf)_mm256_max_ps((__m256)a, (__m256)b);
}
INLINE vf vsqrt(vf a) {
  return (vf)_mm256_sqrt_ps((__m256)a);
}
INLINE vf select_less(vf a, vf b, vf x, vf y) {
  return (vf)_mm256_blendv_ps((__m256)y, (__m256)x,
                              _mm256_cmp_ps((__m256)a, (__m256)b, _CMP_LT_OQ));
}
INLINE vf select_equal(vi a, vi b, vf x, vf y) {
  __m256i equal = _mm256_cmpeq_epi32((__m256i)a, (__m256i)b);
  return (vf)_mm256_blendv_ps((__m256)y, (__m256)x, (__m256)equal);
}
/* Even lanes' products without sign, 64 bits each; and the odd lanes moved to even ones. */
INLINE vi multiply_even(vi a, vi b) {
  return (vi)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
INLINE vi odd_to_even(vi a) {
  return (vi)_mm256_srli_epi64((__m256i)a, 32);
}

#else
INLINE vf load_part(const float *x, int n) {
  return (vf){x[0], n > 1 ? x[1] : 0, n > 2 ? x[2] : 0, 0};
}
INLINE void store_part(float *y, vf x, int n) {
  y[0] = x[0];
  if (n > 1) y[1] = x[1];
  if (n > 2) y[2] = x[2];
}
INLINE vf vmin(vf a, vf b) {
  return (vf)_mm_min_ps((__m128)a, (__m128)b);
}
INLINE vf vmax(vf a, vf b) {
  return (vf)_mm_max_ps((__m128)a, (__m128)b);
}
INLINE vf vsqrt(vf a) {
  return (vf)_mm_sqrt_ps((__m128)a);
}
/* Even lanes' products without sign, 64 bits each; and the odd lanes moved to even ones. */
INLINE vi multiply_even(vi a, vi b) {
  return (vi)_mm_mul_epu32((__m128i)a, (__m128i)b);
}
INLINE vi odd_to_even(vi a) {
  return (vi)_mm_srli_epi64((__m128i)a, 32);
}
INLINE vf blend(vi mask, vf x, vf y) {
  return (vf)((mask & (vi)x) | (~mask & (vi)y));
}
INLINE vf select_less(vf a, vf b, vf x, vf y) {
  return blend(a < b, x, y);
}
INLINE vf select_equal(vi a, vi b, vf x, vf y) {
  return blend(a == b, x, y);
}
#endif

INLINE vf select_equal_floats(vf a, vf b, vf x, vf y) {
  return select_equal(a == b, (vi){0}, y, x);
}

/* Lane by lane x where the mask's lane is set (-1), y where it is 0. */
INLINE vf choose(vi mask, vf x, vf y) {
  return select_equal(mask, (vi){0}, y, x);
}

INLINE vf vabs(vf x) {
  return (vf)((vi)x & 0x7fffffff);
}

/* n lanes, where n may be W. */
INLINE vf load_some(const float *x, int n) {
  return n >= W ? load(x) : load_part(x, n);
}

INLINE void store_some(float *y, vf x, int n) {
  if (n >= W)
    store(y, x);
  else
    store_part(y, x, n);
}

#if !defined(__AVX512F__)
INLINE vf load_column(const float *x, int stride, int n) {
  vf y = {0};
  for (int i = 0; i < W && i < n; i++) y[i] = x[(ptrdiff_t)i * stride];
  return y;
}
INLINE void store_column(float *y, int stride, vf x, int n) {
  for (int i = 0; i < W && i < n; i++) y[(ptrdiff_t)i * stride] = x[i];
}
#endif

INLINE vi load_int_some(const int32_t *x, int n) {
  return (vi)load_some((const float *)(const void *)x, n);
}

INLINE void store_int_some(int32_t *y, vi x, int n) {
  store_some((float *)(void *)y, (vf)x, n);
}

INLINE vi load_bytes_some(const uint8_t *x, int n) {
  return n >= W ? load_bytes(x) : load_bytes_part(x, n);
}

/* Lanes that are left of `count` numbers from i on. */
INLINE int lanes_left(size_t count, size_t i) {
  return count - i < W ? (int)(count - i) : W;
}

/* Numbers below 1e-38 count as 0 until the state that this returns is given back: a moment that
 * decays for ever would otherwise make every update a hundred times slower. */
INLINE unsigned flush_tiny(void) {
  unsigned state = _mm_getcsr();
  _mm_setcsr(state | 0x8040);
  return state;
}

INLINE void flush_end(unsigned state) {
  _mm_setcsr(state);
}

/* The sum of the lanes, always in the same order. */
INLINE float sum_lanes(vf x) {
  float sum = 0;
  for (int i = 0; i < W; i++) sum += x[i];
  return sum;
}

#endif
