/* What product.cu and weights.cu keep for a device: cuBLASLt's handle and plans, and copies of
 * weights. Memory is allocated at first use, never while the stream is captured.
 * Upstream: product.cu, weights.cu, linear.cu. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_BLAS_H
#define ACORN_LEARNER_DEVICE_CUDA_BLAS_H

#include <cublasLt.h>

#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/weights.h"

/* What cuBLASLt's fastest products on Hopper ask for. */
enum { BLAS_WORKSPACE_BYTES = 32 << 20, MAX_KEPT_WEIGHTS = 128 };

/* What a choice of cuBLASLt depends on. */
struct plan_key {
  int M, N, K, a_stride, b_stride, c_stride;
  uint32_t a_alignment, b_alignment, c_alignment, d_alignment;
  bool a_transposed, b_transposed, bf16, c_bf16, tf32, add, bias, relu;
};

struct plan {
  struct plan_key key;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t a, b, c; /* cuBLASLt's A and B: our b and a */
  cublasLtMatmulAlgo_t algorithm;
};

struct kept_weights {
  struct weight_copy copy;
  bool valid;    /* the copy is of the weights as they are */
  bool in_graph; /* a captured graph reads the copy: weights_changed renews it */
};

struct blas {
  cublasLtHandle_t handle;
  void *workspace;
  struct plan *plan;
  int num_plans, max_plans;
  struct kept_weights kept[MAX_KEPT_WEIGHTS];
  int num_kept;
};

/* The device's, made at the first call. */
struct blas *cuda_blas(struct cuda *cuda);

/* Fatal for a status that is no success. */
#define BLAS_CHECK(call)                                        \
  do {                                                          \
    cublasStatus_t blas_status = (call);                        \
    if (blas_status != CUBLAS_STATUS_SUCCESS)                   \
      cuda_blas_failed(__FILE__, __LINE__, #call, blas_status); \
  } while (0)
[[noreturn]] void cuda_blas_failed(const char *file, int line, const char *call, int status);

#endif
