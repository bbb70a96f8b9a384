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

/* matrix (pixels, places C) of images x (B, H, W, C). */
template <typename P>
KERNEL image_to_matrix(float *matrix, const P *x, struct conv_shape s, size_t count) {
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    int c = (int)(i % s.C), place = (int)(i / s.C % (s.size * s.size));
    size_t pixel = i / s.C / (s.size * s.size);
    int column = (int)(pixel % s.w), row = (int)(pixel / s.w % s.h);
    int from_row = row * s.stride - s.above + place / s.size,
        from_column = column * s.stride - s.left + place % s.size;
    bool inside = from_row >= 0 && from_row < s.H && from_column >= 0 && from_column < s.W;
    size_t image = pixel / s.w / s.h;
    matrix[i] =
        inside ? to_float(x[((image * s.H + from_row) * s.W + from_column) * s.C + c]) : 0;
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
      size_t pixel = (image * s.h + down / s.stride) * s.w + across / s.stride;
      sum += matrix[(pixel * s.size * s.size + i * s.size + j) * s.C + c];
    }
  }
  return sum;
}

/* dx (B, H, W, C) from the gradient of the matrix. */
template <typename P>
KERNEL matrix_to_image(P *dx, const float *matrix, struct conv_shape s, size_t count) {
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    int c = (int)(i % s.C), column = (int)(i / s.C % s.W), row = (int)(i / s.C / s.W % s.H);
    size_t image = i / s.C / s.W / s.H;
    dx[i] = from_float<P>(sum_over_windows(matrix, s, image, row, column, c));
  }
}

KERNEL add_residual(float *y, const float *residual, size_t n) {
  for (size_t i = grid_first(); i < n; i += grid_step()) y[i] += residual[i];
}

/* ---- forward */

static void chunk_forward(struct cuda *cuda, const struct conv_forward *f, float *matrix, int b,
                          int n) {
  struct conv_shape s = f->shape;
  s.B = n;
  struct product p = {};
  p.c = f->y + written_before(&s, b);
  p.c_stride = s.O;
  p.M = (int)conv_pixels_written(&s);
  p.N = s.O;
  p.K = columns_of(&s);
  p.a = operand_of(matrix, p.K);
  p.b = operand_of(f->weights, s.O);
  p.bias = f->b;
  p.relu = f->act == ACTIVATION_RELU;
  size_t count = (size_t)p.M * (size_t)p.K;
  LAUNCH(image_to_matrix<float>, blocks_for(count), BLOCK, cuda->stream, matrix,
         f->x + read_before(&s, b), s, count);
  cuda_multiply(cuda, &p);
}

void conv_columns_forward(struct cuda *cuda, const struct conv_forward *f) {
  const struct conv_shape *s = &f->shape;
  float *matrix = (float *)cuda_scratch(cuda, matrix_bytes(s));
  for (int b = 0, n = images_at_once(s); b < s->B; b += n)
    chunk_forward(cuda, f, matrix, b, n < s->B - b ? n : s->B - b);
  size_t count = written_before(s, s->B);
  if (f->residual)
    LAUNCH(add_residual, blocks_for(count), BLOCK, cuda->stream, f->y, f->residual, count);
}

/* ---- backward */

/* dw = or += matrix^T dy. */
static void chunk_weights(struct cuda *cuda, const struct conv_backward *p, float *matrix, int b,
                          int n) {
  struct conv_shape s = p->shape;
  s.B = n;
  struct product product = {};
  product.c = p->dw;
  product.c_stride = s.O;
  product.M = columns_of(&s);
  product.N = s.O;
  product.K = (int)conv_pixels_written(&s);
  product.a = operand_transposed(matrix, product.M);
  product.b = operand_of(p->dy + written_before(&s, b), s.O);
  product.add = p->add || b > 0;
  size_t count = (size_t)product.M * (size_t)product.K;
  LAUNCH(image_to_matrix<float>, blocks_for(count), BLOCK, cuda->stream, matrix,
         p->x + read_before(&s, b), s, count);
  cuda_multiply(cuda, &product);
}

static void chunk_inputs(struct cuda *cuda, const struct conv_backward *p, float *matrix, int b,
                         int n) {
  struct conv_shape s = p->shape;
  s.B = n;
  struct product product = {};
  product.c = matrix;
  product.c_stride = columns_of(&s);
  product.M = (int)conv_pixels_written(&s);
  product.N = columns_of(&s);
  product.K = s.O;
  product.a = operand_of(p->dy + written_before(&s, b), s.O);
  product.b = operand_transposed(p->weights, s.O);
  cuda_multiply(cuda, &product);
  size_t count = read_before(&s, n);
  LAUNCH(matrix_to_image<float>, blocks_for(count), BLOCK, cuda->stream,
         p->dx + read_before(&s, b), (const float *)matrix, s, count);
}

void conv_columns_inputs(struct cuda *cuda, const struct conv_backward *p) {
  const struct conv_shape *s = &p->shape;
  float *matrix = (float *)cuda_scratch(cuda, matrix_bytes(s));
  for (int b = 0, n = images_at_once(s); b < s->B; b += n)
    chunk_inputs(cuda, p, matrix, b, n < s->B - b ? n : s->B - b);
}

void conv_columns_backward(struct cuda *cuda, const struct conv_backward *p) {
  const struct conv_shape *s = &p->shape;
  struct columns columns = {};
  columns.dy = p->dy;
  columns.y = p->y;
  columns.sum = p->db;
  columns.act = p->act;
  columns.add = p->add;
  columns.rows = conv_pixels_written(s);
  columns.O = s->O;
  size_t sums = columns_bytes(cuda, &columns);
  char *room = (char *)cuda_scratch(cuda, sums + matrix_bytes(s));
  cuda_turn_columns(cuda, &columns, room);
  float *matrix = (float *)(room + sums);
  for (int b = 0, n = images_at_once(s); b < s->B; b += n) {
    int images = n < s->B - b ? n : s->B - b;
    chunk_weights(cuda, p, matrix, b, images);
    if (p->dx) chunk_inputs(cuda, p, matrix, b, images);
  }
}
