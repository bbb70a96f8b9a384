/* The linear layer: linear_* and linear_pixels_*. Products with the bias and ReLU in their last
 * step; backwards one pass over dy that takes it through the activation and sums its columns. Small
 * layers are small.cu's. Floor of a pass over dy (B, O): 4 bytes read and 4 written a number; 8 and
 * 4 with an activation. Pixels in bf16 are read and written by the products as they are: no pass
 * over x (B, I) or dx. */
#include "learner/device/cuda/blas.h"
#include "learner/device/cuda/columns.h"
#include "learner/device/cuda/product.h"
#include "learner/device/cuda/small.h"

/* Products with fewer weights read float as it is: to convert what they read costs more than they
 * gain. */
enum { BF16_WEIGHTS = 1 << 16 };

static bool reads_bf16(const struct cuda *cuda, int I, int O) {
  return cuda->bf16 && (int64_t)I * O >= BF16_WEIGHTS;
}

/* ---- bf16 */

static int rounded(int columns) {
  return (columns + 7) / 8 * 8;
}

static size_t bf16_bytes(int rows, int columns) {
  return ((size_t)rows * (size_t)rounded(columns) * sizeof(bf16) + 255) / 256 * 256;
}

/* y (B, stride) = x (B, I) in bf16, zeros behind it. */
KERNEL rows_to_bf16(bf16 *y, int stride, const float *x, int x_stride, int I, size_t rows) {
  for (size_t row = blockIdx.x; row < rows; row += gridDim.x)
    for (int i = threadIdx.x; i < stride; i += blockDim.x)
      y[row * stride + i] = to_bf16(i < I ? x[row * x_stride + i] : 0);
}

static struct operand in_bf16(struct cuda *cuda, void *room, const float *x, int x_stride, int B,
                              int I) {
  LAUNCH(rows_to_bf16, blocks_for((size_t)B, 1), BLOCK, cuda->stream, (bf16 *)room, rounded(I), x,
         x_stride, I, (size_t)B);
  return operand_of(room, rounded(I));
}

/* ---- forward */

KERNEL tanh_rows(float *y, size_t n) {
  for (size_t i = grid_first(); i < n; i += grid_step()) y[i] = tanhf(y[i]);
}

/* y = act(a b + the bias); of `p` the operands and their type are set. In bf16 both have zeros up
 * to a multiple of 8, with which a product reads 16 bytes at a time. */
static void forward(struct cuda *cuda, struct product p, float *y, const float *bias,
                    enum activation act, int B, int I, int O) {
  p.c = y;
  p.c_stride = O;
  p.M = B;
  p.N = O;
  p.K = p.bf16 ? rounded(I) : I;
  p.bias = bias;
  p.relu = act == ACTIVATION_RELU;
  cuda_multiply(cuda, &p);
  size_t n = (size_t)B * (size_t)O;
  if (act == ACTIVATION_TANH) LAUNCH(tanh_rows, blocks_for(n), BLOCK, cuda->stream, y, n);
}

static struct operand weights_in_bf16(struct cuda *cuda, const real *w, int I, int O) {
  int columns;
  const bf16 *weights = cuda_weights(cuda, &columns, (const float *)w, WEIGHTS_ROWS, 1, I, O);
  return operand_of(weights, columns);
}

void cuda_linear_forward(struct device *d, real *y, const real *x, int x_stride, const real *w,
                         const real *b, enum activation act, int B, int I, int O) {
  if (small_takes(I, O)) {
    struct small_layer l = {
        (float *)y, NULL, NULL, NULL, NULL, (const float *)x, (const float *)w, (const float *)b,
        x_stride,   act,  B,    I,    O};
    small_forward(cuda_of_waiting(d), &l);
    return;
  }
  struct cuda *cuda = cuda_of(d);
  struct product p = {};
  p.bf16 = reads_bf16(cuda, I, O);
  if (p.bf16) {
    p.b = weights_in_bf16(cuda, w, I, O);
    p.a = in_bf16(cuda, cuda_scratch(cuda, bf16_bytes(B, I)), (const float *)x, x_stride, B, I);
  } else {
    p.a = operand_of(x, x_stride);
    p.b = operand_of(w, O);
  }
  forward(cuda, p, (float *)y, (const float *)b, act, B, I, O);
}

void cuda_linear_pixels_forward(struct device *d, real *y, const pixel *x, const real *w,
                                const real *b, enum activation act, int B, int I, int O) {
  struct cuda *cuda = cuda_of(d);
  if (!cuda->bf16) {
    cuda_linear_forward(d, y, (const real *)x, I, w, b, act, B, I, O);
    return;
  }
  CHECK(I % 8 == 0, "a layer above %d numbers of an image", I);
  struct product p = {};
  p.bf16 = true;
  p.a = operand_of(x, I);
  p.b = weights_in_bf16(cuda, w, I, O);
  forward(cuda, p, (float *)y, (const float *)b, act, B, I, O);
}

/* ---- backward */

/* dw = x^T dy, dx = dy w^T, either unless NULL; of `p` the types of the operands and of dx are
 * set. */
static void products(struct cuda *cuda, struct product p, void *dx, float *dw, struct operand dy,
                     struct operand x, struct operand w, int B, int I, int O) {
  bool dx_bf16 = p.c_bf16;
  if (dw) {
    p.c_bf16 = false;
    p.c = dw;
    p.c_stride = O;
    p.M = I;
    p.N = O;
    p.K = B;
    p.a = operand_transposed(x.at, x.stride);
    p.b = dy;
    cuda_multiply(cuda, &p);
  }
  if (!dx) return;
  p.c = dx;
  p.c_bf16 = dx_bf16;
  p.c_stride = I;
  p.M = B;
  p.N = I;
  p.K = O;
  p.a = dy;
  p.b = operand_transposed(w.at, w.stride);
  cuda_multiply(cuda, &p);
}

static struct columns columns_of(float *db, float *dy, const float *y, enum activation act, int B,
                                 int O) {
  struct columns columns = {};
  columns.dy = dy;
  columns.y = y;
  columns.sum = db;
  columns.act = act;
  columns.rows = (size_t)B;
  columns.O = O;
  return columns;
}

/* What a backward pass in bf16 reads. */
struct low_gradient {
  float *dy;
  const float *y;
  enum activation act;
  const void *x;
  int x_stride;
  bool pixels; /* x and dx are bf16 already */
};

static void backward_in_bf16(struct cuda *cuda, const struct low_gradient *g, void *dx, float *dw,
                             float *db, const real *w, int B, int I, int O) {
  struct operand weights = weights_in_bf16(cuda, w, I, O);
  struct columns columns = columns_of(db, g->dy, g->y, g->act, B, O);
  size_t sums = columns_bytes(cuda, &columns), above = bf16_bytes(B, O),
         below = g->pixels ? 0 : bf16_bytes(B, I);
  char *room = (char *)cuda_scratch(cuda, sums + above + below);
  columns.low = (bf16 *)(room + sums);
  columns.low_stride = rounded(O);
  cuda_turn_columns(cuda, &columns, room);
  struct operand x =
      g->pixels ? operand_of(g->x, g->x_stride)
                : in_bf16(cuda, room + sums + above, (const float *)g->x, g->x_stride, B, I);
  struct product p = {};
  p.bf16 = true;
  p.c_bf16 = g->pixels;
  products(cuda, p, dx, dw, operand_of(columns.low, columns.low_stride), x, weights, B, I, O);
}

void cuda_linear_backward(struct device *d, real *dx, real *dw, real *db, real *dy, const real *y,
                          const real *x, int x_stride, const real *w, enum activation act, int B,
                          int I, int O) {
  if (small_takes(I, O)) {
    struct small_layer l = {(float *)y,
                            (float *)dx,
                            (float *)dw,
                            (float *)db,
                            (float *)dy,
                            (const float *)x,
                            (const float *)w,
                            NULL,
                            x_stride,
                            act,
                            B,
                            I,
                            O};
    small_backward(cuda_of_waiting(d), &l);
    return;
  }
  struct cuda *cuda = cuda_of(d);
  if (reads_bf16(cuda, I, O)) {
    struct low_gradient low = {(float *)dy, (const float *)y, act, x, x_stride, false};
    backward_in_bf16(cuda, &low, dx, (float *)dw, (float *)db, w, B, I, O);
    return;
  }
  struct columns columns = columns_of((float *)db, (float *)dy, (const float *)y, act, B, O);
  cuda_turn_columns(cuda, &columns, cuda_scratch(cuda, columns_bytes(cuda, &columns)));
  struct product floats = {};
  products(cuda, floats, dx, (float *)dw, operand_of(dy, O), operand_of(x, x_stride),
           operand_of(w, O), B, I, O);
}

void cuda_linear_pixels_backward(struct device *d, pixel *dx, real *dw, real *db, real *dy,
                                 const real *y, const pixel *x, const real *w, enum activation act,
                                 int B, int I, int O) {
  struct cuda *cuda = cuda_of(d);
  if (!cuda->bf16) {
    cuda_linear_backward(d, (real *)dx, dw, db, dy, y, (const real *)x, I, w, act, B, I, O);
    return;
  }
  struct low_gradient low = {(float *)dy, (const float *)y, act, x, I, true};
  backward_in_bf16(cuda, &low, dx, (float *)dw, (float *)db, w, B, I, O);
}

void cuda_linear_destroy(struct cuda *cuda) {
  cuda_product_destroy(cuda);
}
