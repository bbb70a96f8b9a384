/* The part of an image that a block convolves, in shared memory, for matrix instructions on bf16. A
 * row of the product's left operand is what a window covers: 8 channels of one pixel are 16 bytes
 * side by side, which is what a lane brings to the matrix loads; so the matrix is never written.
 *
 * A pixel takes an odd number of 16 bytes and columns that a window meets together (a step apart)
 * lie side by side, so that the 8 rows of a load are in different banks.
 * Upstream: conv_tiles.cu, conv_tiles_back.cu. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_CONV_TILES_H
#define ACORN_LEARNER_DEVICE_CUDA_CONV_TILES_H

#include "learner/device/cuda/conv.h"
#include "learner/device/cuda/pooling.h"
#include "learner/device/cuda/warp_matrix.h"
#include "learner/device/cuda/weights.h"
#include "learner/device/cuda/wide.h"

/* What is left for the image where the weights take more than a block aims at. */
static const size_t LEAST_PATCH_BYTES = 24 << 10;
enum { PIXELS_WANTED = 256, CHUNK = 8 };

/* What a block does at a time: `images` images, `rows` of the rows that are written. */
struct tiling {
  int images, rows, strips;    /* strips of an image */
  int chunks;                  /* of 8 channels, in a pixel */
  int pixel;                   /* numbers from one pixel to the next in shared memory */
  int side, columns;           /* columns of one remainder by the step; of all */
  int read_rows, read_columns; /* that the windows reach */
  int K;                       /* rows of the weights: tile_rows */
  int work;                    /* groups of images times strips */
  /* What a kernel divides its indices by: pixels of a strip, of a row that is written, ... */
  struct divisor by_strip, by_row, by_strips, by_chunks, by_width, by_read_rows, by_step;
};

/* Chunks of a row of the patch. */
HOST_AND_DEVICE int patch_width(const struct tiling &t) {
  return t.read_columns * t.chunks;
}

static inline void tiling_set_divisors(struct tiling *t, const struct conv_shape *s) {
  t->by_strip = divisor_of(t->rows * s->w);
  t->by_row = divisor_of(s->w);
  t->by_strips = divisor_of(t->strips);
  t->by_chunks = divisor_of(t->chunks);
  t->by_width = divisor_of(patch_width(*t));
  t->by_read_rows = divisor_of(t->read_rows);
  t->by_step = divisor_of(s->step);
}

/* Where a chunk of a row of the patch lies and where it comes from, counted from the starts of
 * these rows; from: -1 beside the image. */
struct patch_column {
  int to, from;
};

/* What a block has in shared memory besides the patch, in bytes: in all, and for each pixel that is
 * written; and what it aims at in all. */
struct tile_room {
  size_t fixed, pixel, wanted;
};

/* False where an image does not fit into `most` bytes. */
static inline bool tiling_choose(struct tiling *t, const struct conv_shape *s,
                                 const struct tile_room *room, size_t most) {
  t->chunks = tile_channels(s->C) / CHUNK;
  t->pixel = (t->chunks | 1) * CHUNK;
  t->read_columns = (s->w - 1) * s->step + s->across;
  t->side = (t->read_columns + s->step - 1) / s->step;
  t->columns = t->side * s->step;
  t->K = tile_rows(conv_places(s), s->C);
  size_t row = (size_t)t->columns * (size_t)t->pixel * sizeof(bf16);
  size_t fixed = room->fixed + (size_t)patch_width(*t) * sizeof(struct patch_column);
  size_t wanted =
      fixed + LEAST_PATCH_BYTES < room->wanted ? room->wanted - fixed : LEAST_PATCH_BYTES;
  if (fixed + wanted > most) wanted = most > fixed ? most - fixed : 0;
  size_t written = (size_t)s->w * room->pixel;
  int rows = s->h;
  while (rows > 1 &&
         (size_t)((rows - 1) * s->stride + s->size) * row + (size_t)rows * written > wanted)
    rows--;
  t->strips = (s->h + rows - 1) / rows;
  t->rows = (s->h + t->strips - 1) / t->strips;
  t->read_rows = (t->rows - 1) * s->stride + s->size;
  size_t each = (size_t)t->read_rows * row + (size_t)t->rows * written; /* image */
  t->images = 1;
  while (t->strips == 1 && t->images < s->B && t->images * s->h * s->w < PIXELS_WANTED &&
         (size_t)(t->images + 1) * each <= wanted)
    t->images++;
  t->work = (s->B + t->images - 1) / t->images * t->strips;
  tiling_set_divisors(t, s);
  return fixed + (size_t)t->images * each <= most;
}

/* Pixels that a block writes at a time. */
static inline int tiling_pixels(const struct tiling *t, const struct conv_shape *s) {
  return t->images * t->rows * s->w;
}

/* The patch, and behind it where its columns come from. */
static inline size_t patch_bytes(const struct tiling *t) {
  return (size_t)patch_width(*t) * sizeof(struct patch_column) +
         (size_t)t->images * (size_t)t->read_rows * (size_t)t->columns * (size_t)t->pixel *
             sizeof(bf16);
}

/* Blocks for `work` parts: as many as are on the GPU together, at most `each` a multiprocessor. */
template <typename K>
static unsigned blocks_that_fit(const struct cuda *cuda, K kernel, int threads, size_t bytes,
                                int each, int work) {
  int fit = 0;
  allow_shared(kernel, bytes);
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel, threads, bytes));
  if (fit > each) fit = each;
  int blocks = (fit > 0 ? fit : 1) * cuda->properties.multiProcessorCount;
  return (unsigned)(blocks < work ? blocks : work);
}

/* ---- in a kernel */

/* What part `work` is of the images and of their rows. Its pixels lie one behind the other: it has
 * whole images or rows of one. */
struct tile_part {
  int image, images; /* the first, and how many */
  int row, rows;
  size_t first; /* pixel of (B, h, w) */
  int pixels;
};

DEVICE struct tile_part tile_part_of(const struct tiling &t, const struct conv_shape &s, int work) {
  struct tile_part part;
  struct split group = divide(work, t.by_strips);
  part.image = group.whole * t.images;
  part.images = min(t.images, s.B - part.image);
  part.row = group.rest * t.rows;
  part.rows = min(t.rows, s.h - part.row);
  part.first = ((size_t)part.image * s.h + part.row) * s.w;
  part.pixels = part.images * part.rows * s.w;
  return part;
}

/* Pixel `number` of the block's (images, rows, w). */
struct tile_pixel {
  int image, row, column;
};

DEVICE struct tile_pixel tile_pixel_of(const struct tiling &t, int number) {
  struct split image = divide(number, t.by_strip), row = divide(image.rest, t.by_row);
  return {image.whole, row.whole, row.rest};
}

/* Where that pixel has its window in the patch: the number of its first place. */
DEVICE int window_start(const struct tiling &t, const struct conv_shape &s, int number) {
  struct tile_pixel at = tile_pixel_of(t, number);
  return ((at.image * t.read_rows + at.row * s.stride) * t.columns + at.column) * t.pixel;
}

/* start (tiling_pixels, rounded up to `count`) */
DEVICE void fill_starts(int *start, const struct tiling &t, const struct conv_shape &s, int count) {
  for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x)
    start[i] = i < t.images * t.rows * s.w ? window_start(t, s, i) : 0;
}

/* offset (K / 8): from a window's first number to those 8 that row 8k of the weights belongs to. */
DEVICE void fill_offsets(int *offset, const struct tiling &t, const struct conv_shape &s) {
  for (int k = (int)threadIdx.x; k < t.K / CHUNK; k += (int)blockDim.x) {
    int place = k / t.chunks, row = place / s.across, column = place % s.across;
    bool is_place = place < s.size * s.across;
    offset[k] = is_place
                    ? (row * t.columns + column % s.step * t.side + column / s.step) * t.pixel +
                          k % t.chunks * CHUNK
                    : 0;
  }
}

/* Whether pixels can be read 8 channels at a time, or 4 where they have no more. */
static inline bool has_vectors(const void *x, int C) {
  return (C % CHUNK == 0 && is_aligned(x)) || (C == CHUNK / 2 && is_aligned(x, 8));
}

/* Up to 8 channels of a pixel, zeros behind them. vectors: as has_vectors tells. */
DEVICE uint4 load_channels(const bf16 *x, int count, bool vectors) {
  if (vectors && count == CHUNK) return *(const uint4 *)x;
  if (vectors) {
    uint2 half = *(const uint2 *)x;
    return {half.x, half.y, 0, 0};
  }
  unsigned y[CHUNK];
  for (int i = 0; i < CHUNK; i++) y[i] = i < count ? x[i].bits : 0;
  uint4 word = {y[0] | y[1] << 16, y[2] | y[3] << 16, y[4] | y[5] << 16, y[6] | y[7] << 16};
  return word;
}

/* dy where y is above 0, else 0, of two numbers each. */
DEVICE unsigned open_halves(unsigned dy, unsigned y) {
  /* A half is above 0 unless its sign is set or all else is 0; NaN is not above 0. */
  unsigned keep = 0;
  for (int half = 0; half < 2; half++) {
    unsigned bits = y >> 16 * half & 0xffff;
    if (bits != 0 && bits <= 0x7f80) keep |= 0xffffu << 16 * half;
  }
  return dy & keep;
}

DEVICE uint4 open_words(const uint4 &dy, const uint4 &y) {
  return {open_halves(dy.x, y.x), open_halves(dy.y, y.y), open_halves(dy.z, y.z),
          open_halves(dy.w, y.w)};
}

/* Up to 8 places of a choice, as load_channels. */
DEVICE uint2 load_choice(const uint8_t *x, int count, bool vectors) {
  if (vectors && count == CHUNK) return *(const uint2 *)x;
  if (vectors) return {*(const unsigned *)x, 0};
  unsigned y[2] = {};
  for (int i = 0; i < count; i++) y[i / 4] |= (unsigned)x[i] << 8 * (i % 4);
  return {y[0], y[1]};
}

/* What a window sends to 8 channels of the pixels that it reaches. */
struct window_chunk {
  uint4 dy;
  uint2 choice;
};

/* sum += those that were chosen from `place` of the window. */
DEVICE void add_chosen(float sum[CHUNK], const struct window_chunk &window, int place) {
  const uint4 &dy = window.dy;
  unsigned pairs[] = {dy.x, dy.y, dy.z, dy.w}, all = (unsigned)place * 0x01010101u;
  unsigned other[] = {window.choice.x ^ all, window.choice.y ^ all};
  UNROLL for (int i = 0; i < CHUNK; i++) {
    unsigned half = i % 2 ? pairs[i / 2] & 0xffff0000u : pairs[i / 2] << 16;
    if ((other[i / 4] & 0xffu << 8 * (i % 4)) == 0) sum[i] += __uint_as_float(half);
  }
}

/* 8 channels from `first` on, of C, of the gradient of a pixel that was pooled, from dy of the
 * windows that reach it, in their order: what pool_backward would have stored. Two windows are
 * loaded together, which is all of a row unless they reach over two others. */
DEVICE uint4 pooled_channels(const bf16 *dy, const struct conv_pool &p, int image, int row,
                             int column, int C, int first, bool vectors) {
  float sum[CHUNK] = {};
  int count = min((int)CHUNK, C - first);
  int bottom = last_window(row, p.above, p.by_stride, p.rows),
      left = first_window(column, p.left, p.size, p.by_stride),
      right = last_window(column, p.left, p.by_stride, p.columns);
  for (int i = first_window(row, p.above, p.size, p.by_stride); i <= bottom; i++)
    for (int j = left; j <= right; j += 2) {
      struct window_chunk window[2] = {};
      size_t at = (((size_t)image * p.rows + i) * p.columns + j) * C + first;
      int place = (row + p.above - i * p.stride) * p.size + column + p.left - j * p.stride;
      UNROLL for (int k = 0; k < 2; k++) if (j + k <= right) {
        window[k].dy = load_channels(dy + at + k * C, count, vectors);
        window[k].choice = load_choice(p.choice + at + k * C, count, vectors);
      }
      UNROLL for (int k = 0; k < 2; k++) add_chosen(sum, window[k], place - k * p.stride);
    }
  return {pack_bf16(sum[0], sum[1]), pack_bf16(sum[2], sum[3]), pack_bf16(sum[4], sum[5]),
          pack_bf16(sum[6], sum[7])};
}

/* column (patch_width) */
DEVICE void fill_columns(struct patch_column *column, const struct tiling &t,
                         const struct conv_shape &s) {
  for (int i = (int)threadIdx.x; i < patch_width(t); i += (int)blockDim.x) {
    struct split at = divide(i, t.by_chunks), place = divide(at.whole, t.by_step);
    int from = at.whole - s.left, channel = at.rest * CHUNK;
    column[i] = {(place.rest * t.side + place.whole) * t.pixel + channel,
                 from >= 0 && from < s.W ? from * s.C + channel : -1};
  }
}

/* Chunk i of the patch: what it holds, and where. POOLED: x is of what was written by the pooling
 * of those images. */
template <bool POOLED>
DEVICE uint4 patch_chunk(int *to, const bf16 *x, const struct patch_column *columns,
                         const struct tiling &t, const struct conv_shape &s,
                         const struct tile_part &part, const struct conv_pool &pool, int i,
                         bool vectors) {
  struct split line = divide(i, t.by_width), row = divide(line.whole, t.by_read_rows);
  struct patch_column column = columns[line.rest];
  int from_row = part.row * s.stride - s.above + row.rest, image = part.image + row.whole;
  *to = line.whole * t.columns * t.pixel + column.to;
  if (row.whole >= part.images || from_row < 0 || from_row >= s.H || column.from < 0)
    return {0, 0, 0, 0};
  struct split at = divide(line.rest, t.by_chunks);
  int channel = at.rest * CHUNK;
  if (POOLED)
    return pooled_channels(x, pool, image, from_row, at.whole - s.left, s.C, channel, vectors);
  const bf16 *from = x + ((size_t)image * s.H + from_row) * s.W * s.C + column.from;
  return load_channels(from, vectors ? min((int)CHUNK, s.C) : min((int)CHUNK, s.C - channel),
                       vectors);
}

/* patch = what the windows of the part reach, zeros around the images; max(that, 0) if `open`.
 * AHEAD loads are under way before the first is needed; where they are POOLED, those of one
 * chunk. */
template <bool POOLED, int AHEAD>
DEVICE void load_patch(bf16 *patch, const bf16 *x, const struct patch_column *columns,
                       const struct tiling &t, const struct conv_shape &s,
                       const struct tile_part &part, const struct conv_pool &pool, bool vectors,
                       bool open) {
  int count = t.images * t.read_rows * patch_width(t), step = (int)blockDim.x;
  for (int first = (int)threadIdx.x; first < count; first += AHEAD * step) {
    uint4 word[AHEAD];
    int to[AHEAD];
    UNROLL for (int k = 0; k < AHEAD; k++) if (first + k * step < count) word[k] =
        patch_chunk<POOLED>(&to[k], x, columns, t, s, part, pool, first + k * step, vectors);
    UNROLL for (int k = 0; k < AHEAD; k++) if (first + k * step < count) *
        (uint4 *)(patch + to[k]) = open ? open_words(word[k], word[k]) : word[k];
  }
}

#endif
