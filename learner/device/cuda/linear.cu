/* The linear layer: linear_forward, linear_backward. Products with the bias and ReLU in their last
 * step; backwards one pass over dy that takes it through the activation and sums its columns. Small
 * layers are small.cu's. Floor of a pass over dy (B, O): 4 bytes read and 4 written a number; 8 and
 * 4 with an activation. */
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

/* y (B, stride) = x (B, I) in bf16; the rest of a row is not written. */
KERNEL rows_to_bf16(bf16 *y, int stride, const float *x, int x_stride, int I, size_t rows) {
  for (size_t row = blockIdx.x; row < rows; row += gridDim.x)
    for (int i = threadIdx.x; i < I; i += blockDim.x)
      y[row * stride + i] = to_bf16(x[row * x_stride + i]);
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

void cuda_linear_forward(struct device *d, real *y, const real *x, int x_stride, const real *w,
                         const real *b, enum activation act, int B, int I, int O) {
  struct cuda *cuda = cuda_of(d);
  if (small_takes(I, O)) {
    struct small_layer l = {
        (float *)y, NULL, NULL, NULL, NULL, (const float *)x, (const float *)w, (const float *)b,
        x_stride,   act,  B,    I,    O};
    small_forward(cuda, &l);
    return;
  }
  struct product p = {};
  p.c = (float *)y;
  p.c_stride = O;
  p.M = B;
  p.N = O;
  p.K = I;
  p.bias = (const float *)b;
  p.relu = act == ACTIVATION_RELU;
  p.bf16 = reads_bf16(cuda, I, O);
  if (p.bf16) {
    int columns;
    const bf16 *weights = cuda_weights(cuda, &columns, (const float *)w, WEIGHTS_ROWS, 1, I, O);
    p.a = in_bf16(cuda, cuda_scratch(cuda, bf16_bytes(B, I)), (const float *)x, x_stride, B, I);
    p.b = operand_of(weights, columns);
  } else {
    p.a = operand_of(x, x_stride);
    p.b = operand_of(w, O);
  }
  cuda_multiply(cuda, &p);
  size_t n = (size_t)B * (size_t)O;
  if (act == ACTIVATION_TANH) LAUNCH(tanh_rows, blocks_for(n), BLOCK, cuda->stream, p.c, n);
}

/* ---- backward */

/* dw = x^T dy, dx = dy w^T. */
static void products(struct cuda *cuda, float *dx, float *dw, struct operand dy, struct operand x,
                     struct operand w, bool bf16, int B, int I, int O) {
  struct product p = {};
  p.bf16 = bf16;
  p.c = dw;
  p.c_stride = O;
  p.M = I;
  p.N = O;
  p.K = B;
  p.a = operand_transposed(x.at, x.stride);
  p.b = dy;
  cuda_multiply(cuda, &p);
  if (!dx) return;
  p.c = dx;
  p.c_stride = I;
  p.M = B;
  p.N = I;
  p.K = O;
  p.a = dy;
  p.b = operand_transposed(w.at, w.stride);
  cuda_multiply(cuda, &p);
}

void cuda_linear_backward(struct device *d, real *dx, real *dw, real *db, real *dy, const real *y,
                          const real *x, int x_stride, const real *w, enum activation act, int B,
                          int I, int O) {
  struct cuda *cuda = cuda_of(d);
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
    small_backward(cuda, &l);
    return;
  }
  bool bf16 = reads_bf16(cuda, I, O);
  struct columns columns = {};
  columns.dy = (float *)dy;
  columns.y = (const float *)y;
  columns.sum = (float *)db;
  columns.act = act;
  columns.rows = (size_t)B;
  columns.O = O;
  size_t sums = columns_bytes(cuda, &columns);
  char *room = (char *)cuda_scratch(cuda, sums + (bf16 ? bf16_bytes(B, O) + bf16_bytes(B, I) : 0));
  if (!bf16) {
    cuda_turn_columns(cuda, &columns, room);
    products(cuda, (float *)dx, (float *)dw, operand_of(dy, O), operand_of(x, x_stride),
             operand_of(w, O), false, B, I, O);
    return;
  }
  columns.low = (struct bf16 *)(room + sums);
  columns.low_stride = rounded(O);
  cuda_turn_columns(cuda, &columns, room);
  struct operand below =
      in_bf16(cuda, room + sums + bf16_bytes(B, O), (const float *)x, x_stride, B, I);
  int stride;
  const struct bf16 *weights = cuda_weights(cuda, &stride, (const float *)w, WEIGHTS_ROWS, 1, I, O);
  products(cuda, (float *)dx, (float *)dw, operand_of(columns.low, columns.low_stride), below,
           operand_of(weights, stride), true, B, I, O);
}

void cuda_linear_destroy(struct cuda *cuda) {
  cuda_product_destroy(cuda);
}
