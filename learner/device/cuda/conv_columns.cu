/* Convolutions as products: each pixel that is written gets a row of what its window covers (places
 * times channels), in scratch memory; the weights are the other operand as they are. For windows
 * and precisions that no other way takes. Floor: each number that is read is written `places` times
 * over and read again, so many images go in several chunks. */
#include "learner/device/cuda/columns.h"
#include "learner/device/cuda/conv.h"
#include "learner/device/cuda/product.h"

/* Numbers of the matrix that are made at once: 256 MiB. */
enum { NUMBERS_AT_ONCE = 64 << 20 };

static int columns_of(const struct conv_shape *s) {
  return conv_places(s) * s->C;
}

static int images_at_once(const struct conv_shape *s) {
  size_t image = (size_t)s->h * (size_t)s->w * (size_t)columns_of(s);
  size_t images = NUMBERS_AT_ONCE / (image ? image : 1);
  return images < 1 ? 1 : images > (size_t)s->B ? s->B : (int)images;
}

static size_t matrix_bytes(const struct conv_shape *s) {
  return (size_t)images_at_once(s) * (size_t)s->h * (size_t)s->w * (size_t)columns_of(s) *
         sizeof(float);
}

/* Where image b begins. */
static size_t read_before(const struct conv_shape *s, int b) {
  return (size_t)b * (size_t)s->H * (size_t)s->W * (size_t)s->C;
}

static size_t written_before(const struct conv_shape *s, int b) {
  return (size_t)b * (size_t)s->h * (size_t)s->w * (size_t)s->O;
}

/* ---- between images and matrices */

/* matrix (pixels, places C) of images x (B, H, W, C), or of max(x, 0) if `open`. */
template <typename P>
KERNEL image_to_matrix(float *matrix, const P *x, bool open, struct conv_shape s, size_t count) {
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    int c = (int)(i % s.C), place = (int)(i / s.C % (s.size * s.size));
    size_t written = i / s.C / (s.size * s.size);
    int column = (int)(written % s.w), row = (int)(written / s.w % s.h);
    int from_row = row * s.stride - s.above + place / s.size,
        from_column = column * s.stride - s.left + place % s.size;
    bool inside = from_row >= 0 && from_row < s.H && from_column >= 0 && from_column < s.W;
    size_t image = written / s.w / s.h;
    float value =
        inside ? to_float(x[((image * s.H + from_row) * s.W + from_column) * s.C + c]) : 0;
    matrix[i] = open && !(value > 0) ? 0 : value;
  }
}

/* The sum of what the windows that cover a pixel hold of it, place after place. */
DEVICE float sum_over_windows(const float *matrix, const struct conv_shape &s, size_t image,
                              int row, int column, int c) {
  float sum = 0;
  for (int i = 0; i < s.size; i++) {
    int down = row + s.above - i;
    if (down < 0 || down % s.stride != 0 || down / s.stride >= s.h) continue;
    for (int j = 0; j < s.size; j++) {
      int across = column + s.left - j;
      if (across < 0 || across % s.stride != 0 || across / s.stride >= s.w) continue;
      size_t window = (image * s.h + down / s.stride) * s.w + across / s.stride;
      sum += matrix[(window * s.size * s.size + i * s.size + j) * s.C + c];
    }
  }
  return sum;
}

/* dx (B, H, W, C) from the gradient of the matrix; if `open`, dx += that where x is above 0. */
template <typename P>
KERNEL matrix_to_image(P *dx, const float *matrix, const P *x, bool open, struct conv_shape s,
                       size_t count) {
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    int c = (int)(i % s.C), column = (int)(i / s.C % s.W), row = (int)(i / s.C / s.W % s.H);
    size_t image = i / s.C / s.W / s.H;
    float gradient = sum_over_windows(matrix, s, image, row, column, c);
    if (open) gradient = to_float(dx[i]) + (to_float(x[i]) > 0 ? gradient : 0);
    dx[i] = from_float<P>(gradient);
  }
}

/* y = sum + residual. y and sum may be the same. */
template <typename P>
KERNEL finish_pixels(P *y, const float *sum, const P *residual, size_t n) {
  for (size_t i = grid_first(); i < n; i += grid_step())
    y[i] = from_float<P>(residual ? sum[i] + to_float(residual[i]) : sum[i]);
}

/* above = dy in float, through a ReLU if y is given, and then so in dy too. */
KERNEL raise_gradient(float *above, bf16 *dy, const bf16 *y, size_t n) {
  for (size_t i = grid_first(); i < n; i += grid_step()) {
    above[i] = y && !(to_float(y[i]) > 0) ? 0 : to_float(dy[i]);
    if (y) dy[i] = to_bf16(above[i]);
  }
}

/* ---- chunks of images */

/* Some images of a pass, and the scratch memory that all chunks use. */
struct chunk {
  struct conv_shape s; /* with the images of the chunk only */
  int first;
  char *sums;
  float *matrix, *pixels; /* pixels (images, h, w, O): where images are bf16 */
};

static size_t pixels_bytes(const struct conv_shape *s, int images) {
  return s->low ? written_before(s, images) * sizeof(float) : 0;
}

static struct chunk chunks_of(struct cuda *cuda, const struct conv_shape *s, size_t sums) {
  struct chunk chunk = {};
  int images = images_at_once(s);
  chunk.s = *s;
  chunk.s.B = images;
  size_t matrix = matrix_bytes(s);
  chunk.sums = (char *)cuda_scratch(cuda, sums + matrix + pixels_bytes(s, images));
  chunk.matrix = (float *)(chunk.sums + sums);
  chunk.pixels = (float *)(chunk.sums + sums + matrix);
  return chunk;
}

/* The next chunk; false behind the last image, of B. */
static bool next_chunk(struct chunk *chunk, int B) {
  chunk->first += chunk->s.B;
  if (chunk->s.B > B - chunk->first) chunk->s.B = B - chunk->first;
  return chunk->s.B > 0;
}

template <typename P>
static P *read_by(const struct chunk *chunk, P *x) {
  return x + read_before(&chunk->s, chunk->first);
}

template <typename P>
static P *written_by(const struct chunk *chunk, P *y) {
  return y + written_before(&chunk->s, chunk->first);
}

template <typename P>
static void make_matrix(struct cuda *cuda, const struct chunk *chunk, const void *x, bool open) {
  const struct conv_shape *s = &chunk->s;
  size_t count = conv_pixels_written(s) * (size_t)columns_of(s);
  LAUNCH(image_to_matrix<P>, blocks_for(count), BLOCK, cuda->stream, chunk->matrix,
         read_by(chunk, (const P *)x), open, *s, count);
}

/* ---- forward */

template <typename P>
static void chunk_forward(struct cuda *cuda, const struct conv_forward *f,
                          const struct chunk *chunk) {
  const struct conv_shape *s = &chunk->s;
  P *y = written_by(chunk, (P *)f->y);
  const P *residual = f->residual ? written_by(chunk, (const P *)f->residual) : NULL;
  struct product p = {};
  p.c = s->low ? chunk->pixels : (float *)y;
  p.c_stride = s->O;
  p.M = (int)conv_pixels_written(s);
  p.N = s->O;
  p.K = columns_of(s);
  p.a = operand_of(chunk->matrix, p.K);
  p.b = operand_of(f->weights, s->O);
  p.bias = f->b;
  p.relu = f->act == ACTIVATION_RELU;
  make_matrix<P>(cuda, chunk, f->x, f->open);
  cuda_multiply(cuda, &p);
  size_t count = written_before(s, s->B);
  if (s->low || residual)
    LAUNCH(finish_pixels<P>, blocks_for(count), BLOCK, cuda->stream, y, (const float *)p.c,
           residual, count);
}

void conv_columns_forward(struct cuda *cuda, const struct conv_forward *f) {
  struct chunk chunk = chunks_of(cuda, &f->shape, 0);
  do {
    if (f->shape.low)
      chunk_forward<bf16>(cuda, f, &chunk);
    else
      chunk_forward<float>(cuda, f, &chunk);
  } while (next_chunk(&chunk, f->shape.B));
}

/* ---- backward */

/* The chunk's dy in float. y: NULL where it came through the activation already. */
static float *gradient_above(struct cuda *cuda, const struct chunk *chunk, void *dy,
                             const void *y) {
  if (!chunk->s.low) return written_by(chunk, (float *)dy);
  size_t count = written_before(&chunk->s, chunk->s.B);
  LAUNCH(raise_gradient, blocks_for(count), BLOCK, cuda->stream, chunk->pixels,
         written_by(chunk, (bf16 *)dy), y ? written_by(chunk, (const bf16 *)y) : NULL, count);
  return chunk->pixels;
}

/* db = or += the columns' sums of `above`, which goes through the activation. */
static struct columns bias_gradient(const struct conv_backward *p, const struct chunk *chunk,
                                    float *above) {
  struct columns c = {};
  c.dy = above;
  c.sum = p->db;
  c.act = p->shape.low ? ACTIVATION_NONE : p->act;
  c.y = p->shape.low ? NULL : written_by(chunk, (const float *)p->y);
  c.add = p->add || chunk->first > 0;
  c.rows = conv_pixels_written(&chunk->s);
  c.O = p->shape.O;
  return c;
}

/* dw = or += matrix^T above. */
static void weight_gradient(struct cuda *cuda, const struct conv_backward *p,
                            const struct chunk *chunk, const float *above) {
  const struct conv_shape *s = &chunk->s;
  if (s->low)
    make_matrix<bf16>(cuda, chunk, p->x, p->open);
  else
    make_matrix<float>(cuda, chunk, p->x, p->open);
  struct product product = {};
  product.c = p->dw;
  product.c_stride = s->O;
  product.M = columns_of(s);
  product.N = s->O;
  product.K = (int)conv_pixels_written(s);
  product.a = operand_transposed(chunk->matrix, product.M);
  product.b = operand_of(above, s->O);
  product.add = p->add || chunk->first > 0;
  cuda_multiply(cuda, &product);
}

static void inputs_gradient(struct cuda *cuda, const struct conv_backward *p,
                            const struct chunk *chunk, const float *above) {
  const struct conv_shape *s = &chunk->s;
  struct product product = {};
  product.c = chunk->matrix;
  product.c_stride = columns_of(s);
  product.M = (int)conv_pixels_written(s);
  product.N = columns_of(s);
  product.K = s->O;
  product.a = operand_of(above, s->O);
  product.b = operand_transposed(p->weights, s->O);
  cuda_multiply(cuda, &product);
  size_t count = read_before(s, s->B);
  if (s->low)
    LAUNCH(matrix_to_image<bf16>, blocks_for(count), BLOCK, cuda->stream,
           read_by(chunk, (bf16 *)p->dx), (const float *)chunk->matrix,
           read_by(chunk, (const bf16 *)p->x), p->open, *s, count);
  else
    LAUNCH(matrix_to_image<float>, blocks_for(count), BLOCK, cuda->stream,
           read_by(chunk, (float *)p->dx), (const float *)chunk->matrix,
           read_by(chunk, (const float *)p->x), p->open, *s, count);
}

void conv_columns_inputs(struct cuda *cuda, const struct conv_backward *p) {
  struct chunk chunk = chunks_of(cuda, &p->shape, 0);
  do inputs_gradient(cuda, p, &chunk, gradient_above(cuda, &chunk, p->dy, NULL));
  while (next_chunk(&chunk, p->shape.B));
}

void conv_columns_backward(struct cuda *cuda, const struct conv_backward *p) {
  struct chunk whole = {};
  whole.s = p->shape;
  whole.s.B = images_at_once(&p->shape);
  struct columns columns = bias_gradient(p, &whole, NULL);
  struct chunk chunk = chunks_of(cuda, &p->shape, columns_bytes(cuda, &columns));
  do {
    float *above = gradient_above(cuda, &chunk, p->dy, p->act == ACTIVATION_RELU ? p->y : NULL);
    columns = bias_gradient(p, &chunk, above);
    cuda_turn_columns(cuda, &columns, chunk.sums);
    weight_gradient(cuda, p, &chunk, above);
    if (p->dx) inputs_gradient(cuda, p, &chunk, above);
  } while (next_chunk(&chunk, p->shape.B));
}
