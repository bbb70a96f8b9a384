/* Convolutions in bf16 with up to 64 channels, forwards and for the gradient of what was read: the
 * weights stay in shared memory, images go through it, and the bias, ReLU and residual follow in
 * registers; so do, backwards, the ReLU on what was read and the gradient that went round it.
 * Floor: x, y, the residual and `through` once each; x partly twice where an image goes in strips
 * (from the second-level cache), and once for each remainder where a strided window goes back. */
#include "learner/device/cuda/conv_tiles.h"
#include "learner/device/cuda/weights.h"

enum { THREADS = 256, WARPS = THREADS / WARP, MOST_BLOCKS = 4, PAD = 8, PIXELS = 16, TWO = 2 };

/* Where the product's pixels are in the image that is written. Backwards a block takes one
 * remainder of rows and columns by the stride (blockIdx.y, rows first): pixels that are a stride
 * apart get theirs from windows alike. */
struct written {
  int rows, columns; /* of the image */
  int stride;
  bool back;
  int above, left; /* zeros before the image, of the window forwards; if `back` */
  struct divisor by_stride;
};

struct convolution {
  struct conv_shape s;
  struct tiling t;
  struct written written;
  bf16 *y;
  const bf16 *x;
  const bf16 *weights; /* WEIGHTS_TILES: (K, N), or _BACK: (remainders, K, N) */
  const float *b;      /* NULL: none */
  const bf16 *through; /* like y: where it is not above 0 the product is 0; NULL: nowhere */
  const bf16 *residual;
  struct conv_pool pool; /* of the images that are read: x is of what it wrote */
  bool relu, open;       /* on what is written, on what is read */
  bool vectors, full;    /* full: as many channels are written as the product has columns */
};

/* ---- the numbers that a lane has of a pixel: channels of the pixel side by side */

/* `full`: all COUNT, 4 of them together. */
template <int COUNT>
DEVICE void read_channels(float value[COUNT], const bf16 *x, int count, bool full) {
  if (full) {
    UNROLL for (int i = 0; i < COUNT; i += 4) {
      uint2 word = *(const uint2 *)(x + i);
      value[i] = __uint_as_float(word.x << 16);
      value[i + 1] = __uint_as_float(word.x & 0xffff0000u);
      value[i + 2] = __uint_as_float(word.y << 16);
      value[i + 3] = __uint_as_float(word.y & 0xffff0000u);
    }
    return;
  }
  UNROLL for (int i = 0; i < COUNT; i++) value[i] = i < count ? to_float(x[i]) : 0;
}

template <int COUNT>
DEVICE void store_channels(bf16 *y, const float value[COUNT], int count, bool full) {
  if (full) {
    UNROLL for (int i = 0; i < COUNT; i += 4) * (uint2 *)(y + i) =
        make_uint2(pack_bf16(value[i], value[i + 1]), pack_bf16(value[i + 2], value[i + 3]));
    return;
  }
  UNROLL for (int i = 0; i < COUNT; i++) if (i < count) y[i] = to_bf16(value[i]);
}

/* ---- the product */

/* Columns of the product are the work of PARTS warps, each with TILES of 8; so many numbers has a
 * row of the weights in shared memory. */
template <int TILES, int PARTS>
constexpr int ROW = 8 * TILES *PARTS + PAD;

/* sum (2 x 16 pixels, 8 TILES) of the windows that start at `start` for this lane's rows, and of
 * the columns of the weights from `weights` on. */
template <int TILES, int PARTS>
DEVICE void multiply_windows(float sum[TWO][TILES][4], const bf16 *patch, const int start[TWO],
                             const int *offset, const bf16 *weights, int K) {
  int lane = (int)threadIdx.x % WARP;
  const bf16 *mine = weights + (size_t)(lane % 16) * ROW<TILES, PARTS> + lane / 16 * 8;
  for (int k = 0; k < K; k += 16) {
    unsigned a[TWO][4];
    int at = offset[k / CHUNK + lane / 16];
    for (int m = 0; m < TWO; m++) load_matrices(a[m], patch + start[m] + at);
    UNROLL for (int n = 0; n < TILES; n += 2) {
      unsigned b[4];
      load_transposed(b, mine + (size_t)k * ROW<TILES, PARTS> + 8 * n);
      UNROLL for (int m = 0; m < TWO; m++) {
        multiply_add(sum[m][n], a[m], b);
        multiply_add(sum[m][n + 1], a[m], b + 2);
      }
    }
  }
}

/* What a warp writes: from which channel on its lane has 2 TILES of them, their bias, and the
 * remainder by the stride of the rows and columns that the block writes. */
template <int TILES>
struct warp_part {
  int column; /* of the product, the first */
  int channel;
  float bias[2 * TILES];
  struct split remainder; /* whole: of the rows */
};

template <int TILES, int PARTS>
DEVICE struct warp_part<TILES> warp_part_of(const struct convolution &c) {
  struct warp_part<TILES> w;
  int number = (int)threadIdx.x / WARP % PARTS;
  w.column = number * 8 * TILES;
  w.channel = ((int)threadIdx.x % 4 * PARTS + number) * 2 * TILES;
  w.remainder = divide((int)blockIdx.y, c.written.by_stride);
  UNROLL for (int i = 0; i < 2 * TILES; i++) w.bias[i] =
      c.b && w.channel + i < c.s.O ? c.b[w.channel + i] : 0;
  return w;
}

/* Which pixel of the image that is written the block's pixel `number` is; false: it is outside. */
DEVICE bool
strided_pixel(size_t *place, const struct convolution &c, const struct tile_part &part,
              const struct split &remainder, int number) {
  const struct written &w = c.written;
  struct tile_pixel at = tile_pixel_of(c.t, number);
  int row = (part.row + at.row) * w.stride + remainder.whole,
      column = at.column * w.stride + remainder.rest;
  *place = ((size_t)(part.image + at.image) * w.rows + row) * w.columns + column;
  return row < w.rows && column < w.columns;
}

/* Writes a row of the product: pixel `number` of the block's. */
template <int TILES>
DEVICE void write_pixel(const struct convolution &c, const struct tile_part &part,
                        const struct warp_part<TILES> &warp, const float sum[TILES][4], int half,
                        int number) {
  if (number >= part.pixels) return;
  const struct written &w = c.written;
  size_t place = part.first + (unsigned)number;
  if (w.stride > 1 && !strided_pixel(&place, c, part, warp.remainder, number)) return;
  int count = c.s.O - warp.channel;
  size_t to = place * c.s.O + warp.channel;
  float value[2 * TILES];
  UNROLL for (int i = 0; i < 2 * TILES; i++) {
    value[i] = sum[i / 2][2 * half + i % 2] + warp.bias[i];
    if (c.relu) value[i] = fmaxf(value[i], 0);
  }
  float other[2 * TILES];
  if (c.through) {
    read_channels<2 * TILES>(other, c.through + to, count, c.full);
    UNROLL for (int i = 0; i < 2 * TILES; i++) value[i] = other[i] > 0 ? value[i] : 0;
  }
  if (c.residual) {
    read_channels<2 * TILES>(other, c.residual + to, count, c.full);
    UNROLL for (int i = 0; i < 2 * TILES; i++) value[i] += other[i];
  }
  store_channels<2 * TILES>(c.y + to, value, count, c.full);
}

template <int TILES, int PARTS>
DEVICE void convolve_part(const struct convolution &c, const struct tile_part &part,
                          const struct warp_part<TILES> &mine, const bf16 *patch, const int *starts,
                          const int *offset, const bf16 *weights) {
  enum { EACH = TWO * PIXELS };
  int warp = (int)threadIdx.x / WARP / PARTS, lane = (int)threadIdx.x % WARP;
  for (int first = EACH * warp; first < part.pixels; first += EACH * WARPS / PARTS) {
    float sum[TWO][TILES][4] = {};
    int start[TWO];
    for (int m = 0; m < TWO; m++)
      start[m] = starts[min(first + PIXELS * m + lane % 16, part.pixels - 1)];
    multiply_windows<TILES, PARTS>(sum, patch, start, offset, weights + mine.column, c.t.K);
    UNROLL for (int m = 0; m < TWO; m++) UNROLL for (int half = 0; half < 2; half++)
        write_pixel<TILES>(c, part, mine, sum[m], half, first + PIXELS * m + lane / 4 + 8 * half);
  }
}

/* The zeros before the image that is read backwards, for this block's remainder: the first pixel of
 * that remainder is in step (remainder + above) / stride of the windows forwards. */
DEVICE struct conv_shape shape_of_block(const struct convolution &c,
                                        const struct split &remainder) {
  struct conv_shape s = c.s;
  const struct written &w = c.written;
  if (!w.back) return s;
  s.above = s.size - 1 - (remainder.whole + w.above) / w.stride;
  s.left = s.size - 1 - (remainder.rest + w.left) / w.stride;
  return s;
}

/* shared (K, N + PAD) = the weights. */
template <int TILES, int PARTS>
DEVICE void load_weights(bf16 *shared, const bf16 *weights, int K) {
  enum { CHUNKS = TILES * PARTS };
  for (int i = (int)threadIdx.x; i < K * CHUNKS; i += THREADS)
    *(uint4 *)(shared + (size_t)(i / CHUNKS) * ROW<TILES, PARTS> + i % CHUNKS * 8) =
        *(const uint4 *)(weights + (size_t)i * 8);
}

template <int TILES, int PARTS, bool POOLED>
static __global__ void __launch_bounds__(THREADS, TILES == 4 ? 2 : 3)
    convolve(PARAMETER struct convolution c) {
  enum { AHEAD = POOLED ? 1 : 4 };
  DYNAMIC_SHARED(bf16, weights);
  bf16 *patch = weights + (size_t)c.t.K * ROW<TILES, PARTS>;
  struct patch_column *columns =
      (struct patch_column *)(patch + (size_t)c.t.images * c.t.read_rows * c.t.columns * c.t.pixel);
  int *offset = (int *)(columns + patch_width(c.t)), *starts = offset + c.t.K / CHUNK;
  const struct warp_part<TILES> mine = warp_part_of<TILES, PARTS>(c);
  const struct conv_shape s = shape_of_block(c, mine.remainder);
  load_weights<TILES, PARTS>(weights, c.weights + (size_t)blockIdx.y * c.t.K * (8 * TILES * PARTS),
                             c.t.K);
  fill_offsets(offset, c.t, c.s);
  fill_columns(columns, c.t, s);
  fill_starts(starts, c.t, s, c.t.images * c.t.rows * s.w);
  for (int work = (int)blockIdx.x; work < c.t.work; work += (int)gridDim.x) {
    struct tile_part part = tile_part_of(c.t, c.s, work);
    __syncthreads(); /* the last part's patch is read no more */
    load_patch<POOLED, AHEAD>(patch, c.x, columns, c.t, s, part, c.pool, c.vectors, c.open);
    __syncthreads();
    convolve_part<TILES, PARTS>(c, part, mine, patch, starts, offset, weights);
  }
}

/* ---- launches */

/* Bytes of shared memory that a block aims at, so that three are on a multiprocessor together (two
 * on an A100's, and where registers allow no more: with 32 columns of the product a warp). */
static const size_t TILE_BYTES = 72 << 10;

/* Shared memory beside the patch and the starts of its windows. */
static size_t other_bytes(const struct conv_shape *s) {
  size_t K = (size_t)tile_rows(conv_places(s), s->C);
  return K * (size_t)(tile_columns(s->O) + PAD) * sizeof(bf16) + K / CHUNK * sizeof(int);
}

static bool choose(struct tiling *t, const struct cuda *cuda, const struct conv_shape *s) {
  struct tile_room room = {other_bytes(s), sizeof(int), TILE_BYTES};
  return tiling_choose(t, s, &room, cuda->properties.sharedMemPerBlockOptin);
}

template <int TILES, int PARTS, bool POOLED>
static void launch_tiles(struct cuda *cuda, const struct convolution *c) {
  size_t bytes =
      other_bytes(&c->s) + patch_bytes(&c->t) + (size_t)tiling_pixels(&c->t, &c->s) * sizeof(int);
  int stride = c->written.stride, remainders = stride * stride;
  unsigned blocks = blocks_that_fit(cuda, convolve<TILES, PARTS, POOLED>, THREADS, bytes,
                                    MOST_BLOCKS, c->t.work * remainders);
  unsigned each = (blocks + (unsigned)remainders - 1) / (unsigned)remainders;
  LAUNCH_SHARED((convolve<TILES, PARTS, POOLED>), dim3(each, (unsigned)remainders), THREADS, bytes,
                cuda->stream, *c);
}

template <bool POOLED>
static void launch(struct cuda *cuda, struct convolution *c) {
  const struct conv_shape *s = &c->s;
  CHECK(choose(&c->t, cuda, s), "a convolution of images of %d x %d x %d", s->H, s->W, s->C);
  c->written.by_stride = divisor_of(c->written.stride);
  c->vectors = has_vectors(c->x, s->C) && is_aligned(c->pool.choice, 8);
  c->full = s->O == tile_columns(s->O) && is_aligned(c->y) && is_aligned(c->residual) &&
            is_aligned(c->through);
  switch (tile_columns(s->O)) {
    case 16:
      launch_tiles<2, 1, POOLED>(cuda, c);
      break;
    case 32:
      launch_tiles<4, 1, POOLED>(cuda, c);
      break;
    default:
      launch_tiles<4, 2, POOLED>(cuda, c);
      break;
  }
}

void conv_tiles_forward(struct cuda *cuda, const struct conv_forward *f) {
  struct convolution c = {};
  const struct conv_shape *s = &f->shape;
  int columns;
  c.s = *s;
  c.written = {s->h, s->w, 1, false, 0, 0, {}};
  c.y = (bf16 *)f->y;
  c.x = (const bf16 *)f->x;
  c.weights = cuda_weights(cuda, &columns, f->weights, WEIGHTS_TILES, conv_places(s), s->C, s->O);
  c.b = f->b;
  c.residual = (const bf16 *)f->residual;
  c.relu = f->act == ACTIVATION_RELU;
  c.open = f->open;
  launch<false>(cuda, &c);
}

/* The window that reads what was written and writes what was read: of those pixels whose rows and
 * columns leave one remainder by the stride, the first remainder's, which has most of them. */
static struct conv_shape shape_back(const struct conv_shape *s) {
  struct conv_shape back = *s;
  back.H = s->h;
  back.W = s->w;
  back.C = s->O;
  back.h = (s->H + s->stride - 1) / s->stride;
  back.w = (s->W + s->stride - 1) / s->stride;
  back.O = s->C;
  back.size = back.across = (s->size + s->stride - 1) / s->stride;
  back.stride = back.step = 1;
  return back;
}

void conv_tiles_inputs(struct cuda *cuda, const struct conv_backward *b) {
  struct convolution c = {};
  const struct conv_shape *s = &b->shape;
  int columns;
  c.s = shape_back(s);
  c.written = {s->H, s->W, s->stride, true, s->above, s->left, {}};
  struct weight_window window = {s->size, s->stride, s->above, s->left};
  c.y = (bf16 *)b->dx;
  c.x = (const bf16 *)b->dy;
  c.through = b->open ? (const bf16 *)b->x : NULL;
  c.residual = b->open ? c.y : NULL;
  c.weights = cuda_weights_back(cuda, &columns, b->weights, &window, s->C, s->O);
  c.pool = b->pool;
  if (c.pool.choice)
    launch<true>(cuda, &c);
  else
    launch<false>(cuda, &c);
}

bool conv_tiles_inputs_take(const struct cuda *cuda, const struct conv_shape *shape) {
  struct tiling t;
  struct conv_shape back = shape_back(shape);
  return tile_columns(shape->C) > 0 && choose(&t, cuda, &back);
}

bool conv_tiles_forward_take(const struct cuda *cuda, const struct conv_shape *s) {
  struct tiling t;
  return cuda->bf16 && tile_columns(s->O) > 0 && tile_columns(s->C) > 0 && choose(&t, cuda, s);
}
