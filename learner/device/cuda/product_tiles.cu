/* Products without cuBLASLt, in tiles of 64 x 64: what product.cu goes by where the library is
 * missing or has no algorithm for a shape. Not as fast, but for any sizes, strides and alignments.
 *
 * A block sums up a tile of c over a range of K, 64 of K at a time: tiles of a and b come to shared
 * memory as they are stored, the next ones while these are multiplied. Of its eight warps each has
 * 32 x 16 numbers of c, a lane those that matrix instructions give it (warp_matrix.h), with which
 * bf16 and tf32 are multiplied; float32 by multiply-adds. Where c has few tiles and K is long,
 * several blocks have ranges of K of one tile, and a second kernel adds their sums in order. */
#include "learner/device/cuda/product.h"
#include "learner/device/cuda/warp_matrix.h"
#include "learner/device/cuda/wide.h"

/* FULL: as many blocks fill the largest GPU. LEAST: tiles of K that a range has. */
enum { SIDE = 64, MOST_ROW = SIDE + 8, TWO = 2, FULL = 2 * 132, LEAST = 4 };
static_assert((int)PRODUCT_ROOM_BYTES == FULL * SIDE * SIDE * 4, "a tile for each block");

struct tiles {
  struct product p;
  float *parts;    /* (ranges, M, N); NULL: one range is all of K */
  int depth;       /* of a range, a multiple of SIDE */
  unsigned across; /* tiles side by side */
};

/* ---- operands */

/* An operand as it is stored: rows of k, or columns. */
template <typename P>
struct stored {
  const P *at;
  int stride, rows, columns;
  bool rows_are_k, wide;
};

/* `other`: its size beside K. */
template <typename P>
DEVICE stored<P> stored_of(const struct operand &x, bool is_b, int other, int K) {
  bool rows_are_k = is_b != x.transposed;
  return {(const P *)x.at,        x.stride,   rows_are_k ? K : other,
          rows_are_k ? other : K, rows_are_k, is_aligned(x.at) && x.stride % WIDE<P> == 0};
}

template <typename P>
constexpr int CHUNKS = SIDE / WIDE<P>; /* of a row of a tile */
template <typename P>
constexpr int EACH = SIDE *CHUNKS<P> / BLOCK; /* that a thread brings */

/* The first `count` numbers, zeros behind them. */
template <typename P>
DEVICE pack<P, WIDE<P>> load_chunk(const P *x, int count, bool wide) {
  if (wide && count >= WIDE<P>) return load_pack<P, WIDE<P>>(x);
  pack<P, WIDE<P>> value = {};
  UNROLL for (int i = 0; i < WIDE<P>; i++) if (i < count) value.at[i] = x[i];
  return value;
}

/* Of the tile from `first` and k on. */
template <typename P>
DEVICE void load_tile(pack<P, WIDE<P>> value[EACH<P>], const stored<P> &x, int first, int k) {
  UNROLL for (int e = 0; e < EACH<P>; e++) {
    int i = (int)threadIdx.x + e * BLOCK, row = (x.rows_are_k ? k : first) + i / CHUNKS<P>,
        column = (x.rows_are_k ? first : k) + i % CHUNKS<P> * WIDE<P>;
    value[e] = load_chunk<P>(x.at + (size_t)row * x.stride + column,
                             row < x.rows ? x.columns - column : 0, x.wide);
  }
}

/* A tile in shared memory. Its rows are of such lengths that lanes read from different banks. */
template <typename P>
struct tile {
  P *at;
  int row;
  bool rows_are_k;
};

template <typename P>
DEVICE tile<P> tile_of(P *at, const stored<P> &x) {
  return {at, sizeof(P) == 2 || x.rows_are_k ? SIDE + 8 : SIDE + 4, x.rows_are_k};
}

template <typename P>
DEVICE void store_tile(const tile<P> &x, const pack<P, WIDE<P>> value[EACH<P>]) {
  UNROLL for (int e = 0; e < EACH<P>; e++) {
    int i = (int)threadIdx.x + e * BLOCK;
    store_pack(x.at + i / CHUNKS<P> * x.row + i % CHUNKS<P> * WIDE<P>, value[e]);
  }
}

/* ---- a tile's product: sum [16 rows each] [8 columns each] [as multiply_add has them] */

/* Where this warp's part of the tile begins. */
DEVICE int warp_row() {
  return (int)threadIdx.x / WARP / 4 * 32;
}
DEVICE int warp_column() {
  return (int)threadIdx.x / WARP % 4 * 16;
}

/* An operand of 16 x 16 from `first` and k on, of a or b: as two matrices of 8 x 8 of its rows or
 * columns for each half of k (a: k's half is the outer one; b: the inner one). */
DEVICE void load_operand(unsigned y[4], const tile<bf16> &x, bool is_b, int first, int k) {
  int lane = (int)threadIdx.x % WARP;
  bool straight = x.rows_are_k == is_b;
  int row = straight ? lane % 16 : lane % 8 + lane / 16 * 8,
      column = straight ? lane / 16 * 8 : lane / 8 % 2 * 8;
  const bf16 *at =
      x.at + (row + (x.rows_are_k ? k : first)) * x.row + column + (x.rows_are_k ? first : k);
  if (x.rows_are_k)
    load_transposed(y, at);
  else
    load_matrices(y, at);
}

template <bool TENSORS>
DEVICE void multiply(float sum[TWO][TWO][4], const tile<bf16> &a, const tile<bf16> &b) {
  UNROLL for (int k = 0; k < SIDE; k += 16) {
    unsigned x[TWO][4], y[4];
    UNROLL for (int m = 0; m < TWO; m++) load_operand(x[m], a, false, warp_row() + 16 * m, k);
    load_operand(y, b, true, warp_column(), k);
    UNROLL for (int m = 0; m < TWO; m++) UNROLL for (int n = 0; n < TWO; n++)
        multiply_add(sum[m][n], x[m], y + 2 * n);
  }
}

/* `step` from row to row of c (of a), or column to column (of b); `deep` from k to k. */
struct walk {
  const float *at;
  int step, deep;
};

DEVICE struct walk walk_of(const tile<float> &x, int first) {
  int step = x.rows_are_k ? 1 : x.row;
  return {x.at + first * step, step, x.rows_are_k ? x.row : 1};
}

DEVICE void multiply_in_tf32(float sum[TWO][TWO][4], const struct walk &a, const struct walk &b) {
  int deep = (int)threadIdx.x % 4;
  UNROLL for (int k = 0; k < SIDE; k += 8) {
    unsigned x[TWO][4], y[TWO][2];
    UNROLL for (int m = 0; m < TWO; m++) UNROLL for (int i = 0; i < 4; i++) x[m][i] =
        to_tf32(a.at[(16 * m + 8 * (i % 2)) * a.step + (k + deep + i / 2 * 4) * a.deep]);
    UNROLL for (int n = 0; n < TWO; n++) UNROLL for (int i = 0; i < 2; i++) y[n][i] =
        to_tf32(b.at[8 * n * b.step + (k + deep + 4 * i) * b.deep]);
    UNROLL for (int m = 0; m < TWO; m++) UNROLL for (int n = 0; n < TWO; n++)
        multiply_add_tf32(sum[m][n], x[m], y[n]);
  }
}

DEVICE void multiply_in_float(float sum[TWO][TWO][4], const struct walk &a, const struct walk &b) {
  for (int k = 0; k < SIDE; k++) {
    float x[4], y[4];
    UNROLL for (int i = 0; i < 4; i++) x[i] = a.at[8 * i * a.step + k * a.deep];
    UNROLL for (int i = 0; i < 4; i++) y[i] = b.at[(i / 2 * 8 + i % 2) * b.step + k * b.deep];
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++)
        sum[i / 2][j / 2][2 * (i % 2) + j % 2] += x[i] * y[j];
  }
}

template <bool TENSORS>
DEVICE void multiply(float sum[TWO][TWO][4], const tile<float> &a, const tile<float> &b) {
  int lane = (int)threadIdx.x % WARP;
  struct walk x = walk_of(a, warp_row() + lane / 4);
  if (TENSORS)
    multiply_in_tf32(sum, x, walk_of(b, warp_column() + lane / 4));
  else
    multiply_in_float(sum, x, walk_of(b, warp_column() + 2 * (lane % 4)));
}

/* ---- what is written */

DEVICE void finish(const struct product &p, int row, int column, float y) {
  size_t at = (size_t)row * p.c_stride + column;
  if (p.add) y += ((const float *)p.c)[at];
  if (p.bias) y += p.bias[column];
  if (p.relu && y < 0) y = 0;
  if (p.c_bf16)
    ((bf16 *)p.c)[at] = to_bf16(y);
  else
    ((float *)p.c)[at] = y;
}

template <typename P, bool TENSORS>
static __global__ void __launch_bounds__(BLOCK, 2) multiply_tiles(PARAMETER struct tiles t) {
  DYNAMIC_SHARED(P, shared);
  const struct product &p = t.p;
  int lane = (int)threadIdx.x % WARP, row = (int)(blockIdx.x / t.across) * SIDE,
      column = (int)(blockIdx.x % t.across) * SIDE, k = (int)blockIdx.y * t.depth,
      end = min(k + t.depth, p.K);
  const stored<P> a = stored_of<P>(p.a, false, p.M, p.K), b = stored_of<P>(p.b, true, p.N, p.K);
  const tile<P> tile_a = tile_of(shared, a), tile_b = tile_of(shared + SIDE * MOST_ROW, b);
  pack<P, WIDE<P>> next_a[EACH<P>], next_b[EACH<P>];
  float sum[TWO][TWO][4] = {};
  load_tile(next_a, a, row, k);
  load_tile(next_b, b, column, k);
  for (; k < end; k += SIDE) {
    __syncthreads(); /* the last tiles are read no more */
    store_tile(tile_a, next_a);
    store_tile(tile_b, next_b);
    __syncthreads();
    if (k + SIDE < end) {
      load_tile(next_a, a, row, k + SIDE);
      load_tile(next_b, b, column, k + SIDE);
    }
    multiply<TENSORS>(sum, tile_a, tile_b);
  }
  row += warp_row() + lane / 4;
  column += warp_column() + 2 * (lane % 4);
  UNROLL for (int m = 0; m < TWO; m++) UNROLL for (int n = 0; n < TWO; n++)
      UNROLL for (int i = 0; i < 4; i++) {
    int y = row + 16 * m + i / 2 * 8, x = column + 8 * n + i % 2;
    if (y >= p.M || x >= p.N) continue;
    if (t.parts)
      t.parts[((size_t)blockIdx.y * p.M + y) * p.N + x] = sum[m][n][i];
    else
      finish(p, y, x, sum[m][n][i]);
  }
}

KERNEL add_ranges(PARAMETER struct tiles t, int ranges) {
  size_t count = (size_t)t.p.M * t.p.N;
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    float sum = 0;
    for (int range = 0; range < ranges; range++) sum += t.parts[range * count + i];
    struct quotient at = divide(i, (unsigned)t.p.N);
    finish(t.p, (int)at.whole, (int)at.rest, sum);
  }
}

/* ---- launches */

static int ceil_of(int x, int by) {
  return (x + by - 1) / by;
}

template <typename P, bool TENSORS>
static void launch(struct cuda *cuda, const struct tiles *t, unsigned count, int ranges) {
  LAUNCH_SHARED((multiply_tiles<P, TENSORS>), dim3(count, (unsigned)ranges), BLOCK,
                TWO * SIDE * MOST_ROW * sizeof(P), cuda->stream, *t);
}

void product_in_tiles(struct cuda *cuda, const struct product *p, bool tf32, float *room) {
  struct tiles t = {*p, NULL, 0, (unsigned)ceil_of(p->N, SIDE)};
  unsigned tiles = (unsigned)ceil_of(p->M, SIDE) * t.across;
  int deep = ceil_of(p->K, SIDE), most = max(min((int)(FULL / tiles), deep / (int)LEAST), 1);
  t.depth = SIDE * ceil_of(deep, most);
  int ranges = ceil_of(p->K, t.depth);
  if (ranges > 1) {
    t.parts = room;
    POISON_SCRATCH(cuda->stream, room, (size_t)ranges * p->M * p->N * sizeof *room);
  }
  if (p->bf16)
    launch<bf16, true>(cuda, &t, tiles, ranges);
  else if (tf32)
    launch<float, true>(cuda, &t, tiles, ranges);
  else
    launch<float, false>(cuda, &t, tiles, ranges);
  if (ranges > 1)
    LAUNCH(add_ranges, blocks_for((size_t)p->M * (size_t)p->N), BLOCK, cuda->stream, t, ranges);
}
