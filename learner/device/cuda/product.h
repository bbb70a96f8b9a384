/* Matrix products, in row-major order, with the bias and ReLU that follow: by cuBLASLt, or by
 * Acorn's own kernel where that is missing or lacks a shape. What cuBLASLt chose for a shape is
 * kept, so that a product costs the host one look-up and one launch, two where its sum is split.
 * Upstream: linear.cu, lstm.cu, conv_columns.cu. Downstream: cublasLt, product_tiles.cu. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_PRODUCT_H
#define ACORN_LEARNER_DEVICE_CUDA_PRODUCT_H

#include "learner/device/cuda/cuda.h"

/* An operand whose rows are `stride` numbers apart. */
struct operand {
  const void *at; /* float, or bf16 where the product reads bf16 */
  int stride;
  bool transposed; /* it is stored as the transpose of what the product reads */
};

/* c (M, N) = a (M, K) b (K, N), + c if `add`, + bias (N) if there is one, then ReLU if `relu`. */
struct product {
  void *c; /* float, or bf16 without a bias and not added to */
  struct operand a, b;
  int c_stride;
  int M, N, K;
  bool bf16, c_bf16; /* a and b are bf16, c is */
  bool add, relu;
  const float *bias;
};

struct operand operand_of(const void *at, int stride);
struct operand operand_transposed(const void *at, int stride);

/* Float operands are multiplied in tf32 where the device's precision allows it. */
void cuda_multiply(struct cuda *cuda, const struct product *product);

/* product_tiles.cu: the same without cuBLASLt, in an order of sums that depends on the sizes alone.
 * room: scratch memory of PRODUCT_ROOM_BYTES. */
enum { PRODUCT_ROOM_BYTES = 2 * 132 * 64 * 64 * 4 };
void product_in_tiles(struct cuda *cuda, const struct product *product, bool tf32, float *room);

/* Frees what products have allocated. */
void cuda_product_destroy(struct cuda *cuda);

#endif
