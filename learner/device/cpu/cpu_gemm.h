/* Matrix product: C (M, N) = act(A (M, K) B (K, N) + bias), or C += A B. One family of register
 * tiles serves every layer: A is read by broadcasts, so its strides are free; B is read by
 * vectors from panels of PANEL columns, either in place or packed. For cpu_kernels.c and its
 * parts only.
 *
 * The loops, from outside: blocks of K (a packed panel block stays in the level-2 cache), blocks
 * of M, panels, tiles. A tile of rows x vectors of C lives in registers over one block of K. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_GEMM_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_GEMM_H

#include <math.h>

#include "learner/device/cpu/cpu_math.h"
#include "learner/device/cpu/cpu_transpose.h"
#include "learner/device/device.h"

#if defined(__AVX512F__)
enum { TILE_VECTORS = 4, TILE_ROWS = 6 };
#elif defined(__AVX2__)
enum { TILE_VECTORS = 2, TILE_ROWS = 6 };
#else
enum { TILE_VECTORS = 2, TILE_ROWS = 4 };
#endif
enum { PANEL = TILE_VECTORS * W, BLOCK_K = 256, BLOCK_M = 16 * TILE_ROWS };

/* B as panels. Packed: the blocks of K one after the other, in each the panels one after the
 * other, in each the rows; the last panel's rows are padded with zeros to whole vectors. */
struct panels {
  const float *data;
  int stride; /* between rows of B; 0: packed */
};

struct gemm {
  float *c; /* (M, N), rows c_stride apart */
  int c_stride;
  const float *a; /* element (m, k) at a[m * a_row + k * a_column] */
  ptrdiff_t a_row, a_column;
  struct panels b;
  int M, N, K;
  const float *bias; /* (N), or NULL */
  bool accumulate;   /* C += A B; no bias */
  enum activation act;
};

/* ---- panels */

INLINE int whole_vectors(int n) {
  return (n + W - 1) / W * W;
}

INLINE int at_most_int(int a, int b) {
  return a < b ? a : b;
}

/* Floats of a packed B (K, N). */
static inline size_t panels_count(int K, int N) {
  return (size_t)K * (size_t)whole_vectors(N);
}

/* Packs B (K, N), rows `stride` apart. Worth it where N is no multiple of W, or B is large and
 * used often. */
static struct panels panels_pack(float *packed, const float *b, int stride, int K, int N) {
  float *y = packed;
  for (int k0 = 0; k0 < K; k0 += BLOCK_K)
    for (int n0 = 0; n0 < N; n0 += PANEL) {
      int width = at_most_int(PANEL, N - n0);
      for (int k = k0; k < at_most_int(K, k0 + BLOCK_K); k++, y += whole_vectors(width))
        for (int n = 0; n < width; n += W)
          store(y + n, load_some(b + (size_t)k * stride + n0 + n, width - n));
    }
  return (struct panels){.data = packed};
}

/* The panel of B (K, N) from column n0 on, of B that is stored transposed: b (N, K), rows `stride`
 * apart. */
static void panel_pack_transposed(float *packed, const float *b, int stride, int K, int N, int n0) {
  int width = at_most_int(PANEL, N - n0), padded = whole_vectors(width);
  for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
    int depth = at_most_int(BLOCK_K, K - k0);
    float *y = packed + (size_t)k0 * whole_vectors(N) + (size_t)depth * n0;
    for (int n = 0; n < padded; n += W)
      for (int k = 0; k < depth; k += W)
        transpose(y + (size_t)k * padded + n, padded, b + (size_t)(n0 + n) * stride + k0 + k,
                  stride, at_most_int(W, width - n), at_most_int(W, depth - k));
  }
}

/* Packs B (K, N) that is stored so. */
static struct panels panels_pack_transposed(float *packed, const float *b, int stride, int K,
                                            int N) {
  for (int n0 = 0; n0 < N; n0 += PANEL) panel_pack_transposed(packed, b, stride, K, N, n0);
  return (struct panels){.data = packed};
}

static inline struct panels panels_plain(const float *b, int stride) {
  return (struct panels){.data = b, .stride = stride};
}

/* Packs where reading B in place would not do: ragged rows, or rows so long that the panel's
 * lines fall on each other in the cache, if there are enough rows of A (M) to pay for it.
 * packed: room for panels_count(K, N). */
static struct panels panels_choose(float *packed, const float *b, int stride, int M, int K, int N) {
  bool ragged = N % W != 0, scattered = stride >= 512 && M >= 64;
  return ragged || scattered ? panels_pack(packed, b, stride, K, N) : panels_plain(b, stride);
}

/* ---- one tile */

/* What a tile starts from. */
enum tile_start { START_ZERO, START_BIAS, START_C };

struct tile {
  float *c;
  int c_stride;
  const float *a;
  ptrdiff_t a_row, a_column;
  const float *b;
  int b_stride;
  int K;
  const float *bias;
  enum tile_start start;
  float least; /* what smaller sums become, as by ACTIVATION_RELU; else -INFINITY */
  int tail;    /* lanes of the last vector */
};

#define EACH_ROW(m, n) _Pragma("GCC unroll 12") for (int m = 0; m < (n); m++)

/* rows and vectors are constants where this is expanded, so that the tile is registers. */
INLINE void tile_run(const struct tile *t, const int rows, const int vectors) {
  vf sum[12][4], start[4];
  EACH(v, vectors) {
    start[v] = (vf){0};
    if (t->start == START_BIAS)
      start[v] = load_some(t->bias + v * W, v == vectors - 1 ? t->tail : W);
  }
  EACH_ROW(m, rows) EACH(v, vectors) sum[m][v] = start[v];
  if (t->start == START_C) {
    EACH_ROW(m, rows) {
      const float *c = t->c + (ptrdiff_t)m * t->c_stride;
      EACH(v, vectors) {
        sum[m][v] = load_some(c + v * W, v == vectors - 1 ? t->tail : W);
      }
    }
  }
  const float *a = t->a, *b = t->b;
  const ptrdiff_t a_row = t->a_row, a_column = t->a_column, b_stride = t->b_stride;
#pragma GCC unroll 1
  for (int k = t->K; k > 0; k--, a += a_column, b += b_stride) {
    vf column[4];
    EACH(v, vectors) column[v] = load(b + v * W);
    EACH_ROW(m, rows) {
      vf x = splat(a[m * a_row]);
      EACH(v, vectors) sum[m][v] += x * column[v];
    }
  }
  EACH_ROW(m, rows) {
    float *c = t->c + (ptrdiff_t)m * t->c_stride;
    EACH(v, vectors) {
      store_some(c + v * W, vmax(splat(t->least), sum[m][v]), v == vectors - 1 ? t->tail : W);
    }
  }
}

typedef void tile_function(const struct tile *t);

#define TILE(rows, vectors)                                   \
  static void tile_##rows##_##vectors(const struct tile *t) { \
    tile_run(t, rows, vectors);                               \
  }
#define TILES(vectors) \
  TILE(1, vectors)     \
  TILE(2, vectors) TILE(3, vectors) TILE(4, vectors) TILE(5, vectors) TILE(6, vectors)
#define TILE_NAMES(v) tile_1_##v, tile_2_##v, tile_3_##v, tile_4_##v, tile_5_##v, tile_6_##v

TILES(1)
TILES(2)
#if defined(__AVX512F__)
TILES(3)
TILES(4)
/* Few columns: more rows, so that enough sums are in flight to hide an addition's latency. */
TILE(12, 1)
TILE(12, 2)
TILE(8, 3)
static tile_function *const TILE_TABLE[][6] = {
    {TILE_NAMES(1)}, {TILE_NAMES(2)}, {TILE_NAMES(3)}, {TILE_NAMES(4)}};
static tile_function *const TALL_TILE[] = {tile_12_1, tile_12_2, tile_8_3, tile_6_4};
static const int TALL_ROWS[] = {12, 12, 8, 6};
#elif defined(__AVX2__)
TILE(10, 1)
static tile_function *const TILE_TABLE[][6] = {{TILE_NAMES(1)}, {TILE_NAMES(2)}};
static tile_function *const TALL_TILE[] = {tile_10_1, tile_6_2};
static const int TALL_ROWS[] = {10, 6};
#else
TILE(8, 1)
static tile_function *const TILE_TABLE[][6] = {{TILE_NAMES(1)}, {TILE_NAMES(2)}};
static tile_function *const TALL_TILE[] = {tile_8_1, tile_4_2};
static const int TALL_ROWS[] = {8, 4};
#endif

/* ---- the loops */

INLINE void tanh_vectors(float *y, const int vectors) {
  vf x[TILE_VECTORS];
  EACH(v, vectors) x[v] = load(y + v * W);
  vtanh_each(x, vectors);
  EACH(v, vectors) store(y + v * W, x[v]);
}

/* tanh in place over (rows, width), rows `stride` apart. */
static void tanh_rows(float *y, int stride, int rows, int width) {
  for (int m = 0; m < rows; m++, y += stride) {
    int n = 0;
    for (; n + TILE_VECTORS * W <= width; n += TILE_VECTORS * W) tanh_vectors(y + n, TILE_VECTORS);
    for (; n < width; n += W) store_some(y + n, vtanh(load_some(y + n, width - n)), width - n);
  }
}

/* Rows m0..m1 of one panel: tall tiles first, then what is left. t: the tile at row 0. */
INLINE void panel_run(struct tile t, enum activation act, int m0, int m1, int width) {
  int vectors = (width + W - 1) / W, tall = TALL_ROWS[vectors - 1];
  t.tail = width - (vectors - 1) * W;
  t.least = act == ACTIVATION_RELU ? 0 : -INFINITY;
  t.c += (ptrdiff_t)m0 * t.c_stride;
  t.a += m0 * t.a_row;
  for (int m = m0, rows; m < m1; m += rows) {
    rows = m1 - m >= tall ? tall : at_most_int(TILE_ROWS, m1 - m);
    (rows == tall ? TALL_TILE[vectors - 1] : TILE_TABLE[vectors - 1][rows - 1])(&t);
    if (act == ACTIVATION_TANH) tanh_rows(t.c, t.c_stride, rows, width);
    t.c += (ptrdiff_t)rows * t.c_stride;
    t.a += rows * t.a_row;
  }
}

static void gemm_run(const struct gemm *g) {
  const float *slab = g->b.data;
  for (int k0 = 0; k0 < g->K; k0 += BLOCK_K) {
    int depth = at_most_int(BLOCK_K, g->K - k0);
    struct tile t = {
        .c_stride = g->c_stride, .a_row = g->a_row, .a_column = g->a_column, .K = depth};
    t.start = k0 > 0 || g->accumulate ? START_C : g->bias ? START_BIAS : START_ZERO;
    enum activation act = k0 + depth == g->K ? g->act : ACTIVATION_NONE;
    for (int m0 = 0; m0 < g->M; m0 += BLOCK_M)
      for (int n0 = 0; n0 < g->N; n0 += PANEL) {
        int width = at_most_int(PANEL, g->N - n0);
        t.c = g->c + n0;
        t.a = g->a + k0 * g->a_column;
        t.b = g->b.stride ? slab + n0 : slab + (size_t)n0 * depth;
        t.b_stride = g->b.stride ? g->b.stride : whole_vectors(width);
        t.bias = g->bias ? g->bias + n0 : NULL;
        panel_run(t, act, m0, at_most_int(g->M, m0 + BLOCK_M), width);
      }
    slab += (size_t)depth * (g->b.stride ? g->b.stride : whole_vectors(g->N));
  }
}

#endif
