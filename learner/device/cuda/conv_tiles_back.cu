/* The gradient of a convolution's weights in bf16: the patch of conv_tiles.h, transposed by the
 * matrix loads, times the gradient of what was written, which goes through the ReLU on its way in.
 * A warp has some rows of the weights throughout, a block some of the images and at most 32
 * columns; what the blocks sum is added in order by a second kernel. Floor: x, dy (and y) once; dy
 * is written where there is a ReLU. */
#include "learner/device/cuda/conv_tiles.h"
#include "learner/device/cuda/weights.h"

/* Warps of a block, so that a lane has registers for its sums; columns of a block: 64 are two
 * blocks' work. */
enum { MOST_WARPS = 18, MOST_COLUMNS = 32, WARPS_WANTED = 32, PAD = 8, PIXELS = 16 };

/* Bytes of shared memory that a block aims at: registers allow some 20 warps on a multiprocessor,
 * which are four blocks or two; less leaves more rows to be read twice. */
static const size_t BYTES_OF_FEW = 54 << 10, BYTES_OF_MANY = 80 << 10;
enum { FEW_WARPS = 5 };

struct gradient {
  struct conv_shape s;
  struct tiling t;
  bf16 *dy;
  const bf16 *x, *y;
  float *part;           /* (blocks, K + 1, N): of the weights and of the bias */
  struct conv_pool pool; /* dy is of what it wrote */
  bool relu, open, x_vectors, dy_vectors;
};

/* ---- dy on its way in */

DEVICE void store_some(bf16 *to, const uint4 &word, int count) {
  unsigned pairs[] = {word.x, word.y, word.z, word.w};
  for (int i = 0; i < CHUNK; i++)
    if (i < count) to[i].bits = (uint16_t)(pairs[i / 2] >> 16 * (i % 2));
}

/* 8 channels of dy, through the ReLU and back to where they were. */
DEVICE uint4 turn_channels(bf16 *dy, const bf16 *y, int count, bool relu, bool vectors) {
  uint4 word = load_channels(dy, count, vectors);
  if (!relu) return word;
  uint4 out = load_channels(y, count, vectors);
  word = open_words(word, out);
  if (vectors && count == CHUNK)
    *(uint4 *)dy = word;
  else
    store_some(dy, word, count);
  return word;
}

/* Chunk i of dy of the part, zeros where there is none. */
template <int TILES, bool POOLED>
DEVICE uint4 above_chunk(const struct gradient &g, const struct tile_part &part, int i) {
  const struct conv_shape &s = g.s;
  int number = i / TILES, o = ((int)blockIdx.y * TILES + i % TILES) * CHUNK;
  if (number >= part.pixels || o >= s.O) return {0, 0, 0, 0};
  if (POOLED) {
    struct tile_pixel at = tile_pixel_of(g.t, number);
    return pooled_channels(g.dy, g.pool, part.image + at.image, part.row + at.row, at.column, s.O,
                           o, g.dy_vectors);
  }
  size_t from = (part.first + (unsigned)number) * s.O + o;
  return turn_channels(g.dy + from, g.y + from, min((int)CHUNK, s.O - o), g.relu, g.dy_vectors);
}

/* above (pixels, 8 TILES + PAD) = the block's columns of dy of the part. */
template <int TILES, bool POOLED>
DEVICE void load_above(bf16 *above, const struct gradient &g, const struct tile_part &part,
                       int pixels) {
  enum { AHEAD = POOLED ? 1 : 2 };
  int step = (int)blockDim.x, count = pixels * TILES;
  for (int first = (int)threadIdx.x; first < count; first += AHEAD * step) {
    uint4 word[AHEAD];
    UNROLL for (int k = 0; k < AHEAD; k++) if (first + k * step < count) word[k] =
        above_chunk<TILES, POOLED>(g, part, first + k * step);
    UNROLL for (int k = 0; k < AHEAD; k++) {
      int i = first + k * step;
      if (i < count)
        *(uint4 *)(above + (size_t)(i / TILES) * (8 * TILES + PAD) + i % TILES * CHUNK) = word[k];
    }
  }
}

/* ---- the product */

/* Sums of a warp: ROWS times 16 rows of the weights, all N columns; those of the bias. */
template <int ROWS, int TILES>
struct sums {
  float weights[ROWS][TILES][4], bias[TILES][4];
};

/* sum += patch^T above over the pixels of a part. start: of each pixel's window. */
template <int ROWS, int TILES>
DEVICE void multiply_transposed(struct sums<ROWS, TILES> &sum, const bf16 *patch, const int *start,
                                const int at[ROWS], const bf16 *above, int pixels) {
  int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
  const unsigned ones[4] = {0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80};
  for (int first = 0; first < pixels; first += PIXELS) {
    unsigned b[TILES][2];
    UNROLL for (int n = 0; n < TILES; n += 2) load_transposed(
        b[n], above + (size_t)(first + lane % 16) * (8 * TILES + PAD) + 8 * n + lane / 16 * 8);
    const bf16 *window = patch + start[first + lane % 8 + lane / 16 * 8];
    UNROLL for (int r = 0; r < ROWS; r++) {
      unsigned a[4];
      load_transposed(a, window + at[r]);
      UNROLL for (int n = 0; n < TILES; n++) multiply_add(sum.weights[r][n], a, b[n]);
    }
    if (warp == 0) UNROLL for (int n = 0; n < TILES; n++) multiply_add(sum.bias[n], ones, b[n]);
  }
}

/* The block's columns of part (K + 1, N). */
template <int ROWS, int TILES>
DEVICE void write_sums(float *part, const struct sums<ROWS, TILES> &sum, int K) {
  int N = (int)gridDim.y * 8 * TILES;
  part += blockIdx.y * 8 * TILES;
  int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
  UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int n = 0; n < TILES; n++)
      UNROLL for (int half = 0; half < 2; half++) {
    int k = 16 * (warp * ROWS + r) + lane / 4 + 8 * half;
    if (k < K)
      *(float2 *)(part + (size_t)k * N + 8 * n + lane % 4 * 2) =
          make_float2(sum.weights[r][n][2 * half], sum.weights[r][n][2 * half + 1]);
  }
  if (warp != 0 || lane / 4 != 0) return;
  UNROLL for (int n = 0; n < TILES; n++) * (float2 *)(part + (size_t)K * N + 8 * n + lane * 2) =
      make_float2(sum.bias[n][0], sum.bias[n][1]);
}

template <int ROWS, int TILES, bool POOLED>
static __global__ void __launch_bounds__(WARP *MOST_WARPS)
    sum_gradient(PARAMETER struct gradient g) {
  enum { AHEAD = 4 };
  DYNAMIC_SHARED(bf16, patch);
  const struct tiling &t = g.t;
  int pixels = (t.images * t.rows * g.s.w + PIXELS - 1) / PIXELS * PIXELS;
  bf16 *above = patch + (size_t)t.images * t.read_rows * t.columns * t.pixel;
  struct patch_column *columns =
      (struct patch_column *)(above + (size_t)pixels * (8 * TILES + PAD));
  int *offset = (int *)(columns + patch_width(t)), *start = offset + t.K / CHUNK;
  int lane = (int)threadIdx.x % WARP, at[ROWS];
  fill_offsets(offset, t, g.s);
  fill_columns(columns, t, g.s);
  fill_starts(start, t, g.s, pixels);
  __syncthreads();
  UNROLL for (int r = 0; r < ROWS; r++) {
    int k = 2 * ((int)threadIdx.x / WARP * ROWS + r) + lane / 8 % 2;
    at[r] = k < t.K / CHUNK ? offset[k] : 0;
  }
  struct sums<ROWS, TILES> sum = {};
  for (int work = (int)blockIdx.x; work < t.work; work += (int)gridDim.x) {
    struct tile_part part = tile_part_of(t, g.s, work);
    __syncthreads(); /* the last part's patch is read no more */
    load_above<TILES, POOLED>(above, g, part, pixels);
    load_patch<false, AHEAD>(patch, g.x, columns, t, g.s, part, g.pool, g.x_vectors, g.open);
    __syncthreads();
    multiply_transposed<ROWS, TILES>(sum, patch, start, at, above, pixels);
  }
  write_sums<ROWS, TILES>(g.part + (size_t)blockIdx.x * (t.K + 1) * gridDim.y * 8 * TILES, sum,
                          t.K);
}

/* ---- the sums of all blocks */

struct total {
  float *dw, *db;
  const float *part; /* (blocks, K + 1, N) */
  int blocks, K, N, places, C, O;
  bool add;
};

enum { WIDTH = 32, HEIGHT = 8 };

/* Where number i of (K + 1, N) goes to; NULL: it belongs to no weight. */
DEVICE float *weight_of(const struct total &t, int i) {
  int k = i / t.N, o = i % t.N, room = (t.C + 7) / 8 * 8, place = k / room, c = k % room;
  if (o >= t.O || k > t.K) return NULL;
  if (k == t.K) return t.db + o;
  return place < t.places && c < t.C ? t.dw + ((size_t)place * t.C + c) * t.O + o : NULL;
}

KERNEL add_blocks(struct total t) {
  SHARED float all[HEIGHT][WIDTH];
  int count = (t.K + 1) * t.N, i = (int)(blockIdx.x * WIDTH + threadIdx.x);
  float sum = 0;
  for (int b = (int)threadIdx.y; i < count && b < t.blocks; b += HEIGHT)
    sum += t.part[(size_t)b * count + i];
  all[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || i >= count) return;
  for (int k = 1; k < HEIGHT; k++) sum += all[k][threadIdx.x];
  float *to = weight_of(t, i);
  if (to) *to = t.add ? *to + sum : sum;
}

/* ---- launches */

/* Bytes that a pixel of dy takes: its numbers, and where its window starts. */
static size_t pixel_bytes(const struct conv_shape *s) {
  int columns = tile_columns(s->O) < MOST_COLUMNS ? tile_columns(s->O) : (int)MOST_COLUMNS;
  return (size_t)(columns + PAD) * sizeof(bf16) + sizeof(int);
}

static size_t other_bytes(const struct tiling *t, const struct conv_shape *s) {
  size_t pixels = (size_t)(tiling_pixels(t, s) + PIXELS - 1) / PIXELS * PIXELS;
  return pixels * pixel_bytes(s) + (size_t)t->K / CHUNK * sizeof(int);
}

/* Rows of 16 weights that a warp has. */
static int rows_each(const struct tiling *t) {
  return t->K / 16 <= MOST_WARPS / 2 ? 1 : 2;
}

static bool choose(struct tiling *t, const struct cuda *cuda, const struct conv_shape *s) {
  size_t most = cuda->properties.sharedMemPerBlockOptin;
  size_t K = (size_t)tile_rows(conv_places(s), s->C);
  struct tile_room room = {K / CHUNK * sizeof(int), pixel_bytes(s),
                           K / 16 <= FEW_WARPS ? BYTES_OF_FEW : BYTES_OF_MANY};
  return tiling_choose(t, s, &room, most) && t->K / 16 <= 2 * MOST_WARPS &&
         patch_bytes(t) + other_bytes(t, s) <= most;
}

bool conv_tiles_weights_take(const struct cuda *cuda, const struct conv_shape *s) {
  struct tiling t;
  return choose(&t, cuda, s);
}

template <int ROWS, int TILES>
static void launch_rows(struct cuda *cuda, struct gradient *g, const struct total *total) {
  const struct conv_shape *s = &g->s;
  int warps = (g->t.K / 16 + ROWS - 1) / ROWS;
  size_t bytes = patch_bytes(&g->t) + other_bytes(&g->t, s);
  void (*sum_gradient_of)(struct gradient) =
      g->pool.choice ? sum_gradient<ROWS, TILES, true> : sum_gradient<ROWS, TILES, false>;
  struct total t = *total;
  t.blocks = (int)blocks_that_fit(cuda, sum_gradient_of, WARP * warps, bytes,
                                  max(1, WARPS_WANTED / warps), g->t.work);
  size_t count = (size_t)(t.K + 1) * (size_t)t.N;
  g->part = (float *)cuda_scratch(cuda, (size_t)t.blocks * count * sizeof(float));
  t.part = g->part;
  dim3 grid((unsigned)t.blocks, (unsigned)(t.N / (8 * TILES)));
  LAUNCH_SHARED(sum_gradient_of, grid, WARP * warps, bytes, cuda->stream, *g);
  LAUNCH(add_blocks, (unsigned)((count + WIDTH - 1) / WIDTH), dim3(WIDTH, HEIGHT), cuda->stream, t);
}

template <int TILES>
static void launch_tiles(struct cuda *cuda, struct gradient *g, const struct total *total) {
  if (rows_each(&g->t) == 1)
    launch_rows<1, TILES>(cuda, g, total);
  else
    launch_rows<2, TILES>(cuda, g, total);
}

void conv_tiles_weights(struct cuda *cuda, const struct conv_backward *b) {
  const struct conv_shape *s = &b->shape;
  struct gradient g = {};
  g.s = *s;
  CHECK(choose(&g.t, cuda, s), "a convolution of images of %d x %d x %d", s->H, s->W, s->C);
  g.dy = (bf16 *)b->dy;
  g.x = (const bf16 *)b->x;
  g.y = (const bf16 *)b->y;
  g.relu = b->act == ACTIVATION_RELU;
  g.open = b->open;
  g.pool = b->pool;
  g.x_vectors = has_vectors(b->x, s->C);
  g.dy_vectors =
      has_vectors(b->dy, s->O) && has_vectors(b->y, s->O) && is_aligned(b->pool.choice, 8);
  struct total total = {b->dw,          b->db, NULL, 0,     g.t.K, tile_columns(s->O),
                        conv_places(s), s->C,  s->O, b->add};
  if (total.N == 16)
    launch_tiles<2>(cuda, &g, &total);
  else
    launch_tiles<4>(cuda, &g, &total);
}
