/* What product.cu and weights.cu keep for a device: cuBLASLt, its handle and plans, and copies of
 * weights. The library is loaded when the device first has weights: the program runs without it.
 * Memory is allocated at first use, never while the stream is captured.
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
  bool usable; /* cuBLASLt has an algorithm */
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t a, b, c; /* cuBLASLt's A and B: our b and a */
  cublasLtMatmulAlgo_t algorithm;
};

struct kept_weights {
  struct weight_copy copy;
  bool valid;    /* the copy is of the weights as they are */
  bool in_graph; /* a captured graph reads the copy: weights_changed renews it */
};

#define BLAS_FUNCTIONS(X)                 \
  X(cublasLtGetStatusName)                \
  X(cublasLtGetStatusString)              \
  X(cublasLtGetVersion)                   \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmul)

struct blas {
  bool present;         /* cuBLASLt has been loaded */
  struct error missing; /* else why; no text: it is not wanted */
#define BLAS_MEMBER(name) decltype(&::name) name;
  BLAS_FUNCTIONS(BLAS_MEMBER)
#undef BLAS_MEMBER
  cublasLtHandle_t handle;
  void *workspace; /* of cuBLASLt's products, and of those in tiles */
  struct plan *plan;
  int num_plans, max_plans;
  struct kept_weights kept[MAX_KEPT_WEIGHTS];
  int num_kept;
};

/* The device's, made at the first call. */
struct blas *cuda_blas(struct cuda *cuda);
void cuda_blas_destroy(struct cuda *cuda);
/* Of a product without a library that is wanted; once in a process. */
void cuda_blas_warn(const struct blas *blas);

/* Fatal for a status that is no success. */
#define BLAS_CHECK(blas, call) blas_check(blas, __FILE__, __LINE__, #call, (blas)->call)
void blas_check(const struct blas *blas, const char *file, int line, const char *call,
                cublasStatus_t status);

#endif
