/* Naive products in place of cuBLASLt. A product is a kernel of the emulated runtime, a thread for
 * each number that is written; what NVIDIA's library would refuse is refused. */
#include "cublasLt.h"

#include "internal.h"
#include "learner/device/cuda/portable.h"

struct emulated_blas {
  int unused;
};

struct emulated_layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t stride;
};

struct emulated_matmul {
  cublasComputeType_t compute;
  cublasOperation_t transposed[2];
  cublasLtEpilogue_t epilogue;
  const float *bias;
};

struct emulated_preference {
  size_t workspace_bytes;
  uint32_t alignment[4];
};

const char *emulated_blas_library() {
  return machine_get()->without_blas ? "libabsent_cuda.so.13" : NULL;
}

size_t cublasLtGetVersion() {
  return (size_t)(machine_get()->blas_version * 10000 + 100);
}

const char *cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                                 : "CUBLAS_STATUS_NOT_SUPPORTED";
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "the emulated cuBLASLt refuses this";
}

template <typename T>
static cublasStatus_t create(T **out, const T &value) {
  *out = new T(value);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
static cublasStatus_t destroy(T *x) {
  delete x;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  return create(handle, emulated_blas{0});
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy(handle);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t stride) {
  return create(layout, emulated_layout{type, rows, columns, stride});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  return create(
      operation,
      emulated_matmul{compute, {CUBLAS_OP_N, CUBLAS_OP_N}, CUBLASLT_EPILOGUE_DEFAULT, NULL});
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  return destroy(operation);
}

template <typename T>
static cublasStatus_t set(T *y, const void *value, size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(y, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void *value, size_t bytes) {
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(&operation->transposed[which - CUBLASLT_MATMUL_DESC_TRANSA], value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(&operation->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(&operation->bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  return create(preference, emulated_preference{0, {256, 256, 256, 256}});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void *value, size_t bytes) {
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return set(&preference->workspace_bytes, value, bytes);
  return set(&preference->alignment[which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
             bytes);
}

static bool is_shape(const emulated_layout *x, bool transposed, uint64_t rows, uint64_t columns) {
  return x->rows == (transposed ? columns : rows) && x->columns == (transposed ? rows : columns) &&
         x->stride >= (int64_t)x->rows;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *result, int *count) {
  bool a_transposed = operation->transposed[0] == CUBLAS_OP_T,
       b_transposed = operation->transposed[1] == CUBLAS_OP_T;
  uint64_t inner = a_transposed ? a->rows : a->columns;
  *count = 0;
  if (wanted < 1 || a->type != b->type || c->type != d->type ||
      (c->type != CUDA_R_32F && a->type != CUDA_R_16BF) ||
      !is_shape(a, a_transposed, c->rows, inner) || !is_shape(b, b_transposed, inner, c->columns) ||
      !is_shape(d, false, c->rows, c->columns) ||
      (operation->epilogue & CUBLASLT_EPILOGUE_BIAS && !operation->bias))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (d->rows == machine_get()->blas_lacks) return CUBLAS_STATUS_NOT_SUPPORTED;
  memcpy(result->algo.alignment, preference->alignment, sizeof result->algo.alignment);
  result->workspaceSize = 0;
  result->state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- the product */

struct emulated_operand {
  const void *at;
  int64_t row, column; /* how far apart rows and columns are */
  bool is_bf16, is_tf32;
};

struct emulated_product {
  void *d;
  const float *c, *bias; /* float: neither is used where d is bf16 */
  struct emulated_operand a, b;
  int64_t c_stride, d_stride, rows, columns, inner;
  float alpha, beta;
  bool relu, d_is_bf16;
};

/* 10 bits behind the point, to nearest even. */
static float to_tf32(float x) {
  if (!isfinite(x)) return x;
  uint32_t bits = __float_as_uint(x);
  return __uint_as_float((bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu);
}

static inline float number(const bf16 *x, int64_t i, bool) {
  return to_float(x[i]);
}
static inline float number(const float *x, int64_t i, bool is_tf32) {
  return is_tf32 ? to_tf32(x[i]) : x[i];
}

template <typename T, bool IS_TF32>
static double sum_of_products(const emulated_operand &a, const emulated_operand &b, int64_t row,
                              int64_t column, int64_t inner) {
  const T *x = (const T *)a.at + row * a.row, *y = (const T *)b.at + column * b.column;
  double sum = 0;
  for (int64_t k = 0; k < inner; k++)
    sum += number(x, k * a.column, IS_TF32) * number(y, k * b.row, IS_TF32);
  return sum;
}

KERNEL emulated_multiply(emulated_product p) {
  auto sum_of = p.a.is_bf16   ? sum_of_products<bf16, false>
                : p.a.is_tf32 ? sum_of_products<float, true>
                              : sum_of_products<float, false>;
  for (int64_t i = (int64_t)grid_first(); i < p.rows * p.columns; i += (int64_t)grid_step()) {
    int64_t row = i % p.rows, column = i / p.rows;
    float y = p.alpha * (float)sum_of(p.a, p.b, row, column, p.inner);
    if (p.beta != 0) y += p.beta * p.c[row + column * p.c_stride];
    if (p.bias) y += p.bias[row];
    if (p.relu && y < 0) y = 0;
    if (p.d_is_bf16)
      ((bf16 *)p.d)[row + column * p.d_stride] = to_bf16(y);
    else
      ((float *)p.d)[row + column * p.d_stride] = y;
  }
}

static emulated_operand operand(const void *at, const emulated_layout *layout, bool transposed,
                                cublasComputeType_t compute) {
  return emulated_operand{at, transposed ? layout->stride : 1, transposed ? 1 : layout->stride,
                          layout->type == CUDA_R_16BF, compute == CUBLAS_COMPUTE_32F_FAST_TF32};
}

static bool is_aligned(const void *at, uint32_t alignment) {
  return (uintptr_t)at % alignment == 0;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *, size_t,
                              cudaStream_t stream) {
  bool a_transposed = operation->transposed[0] == CUBLAS_OP_T;
  COUNT_CALL("cublasLtMatmul");
  emulated_product p;
  p.d = d;
  p.d_is_bf16 = d_layout->type == CUDA_R_16BF;
  p.c = (const float *)c;
  p.bias = operation->epilogue & CUBLASLT_EPILOGUE_BIAS ? operation->bias : NULL;
  p.relu = operation->epilogue & CUBLASLT_EPILOGUE_RELU;
  /* A kernel may read the bias as wide as it writes D. */
  if (!is_aligned(a, algorithm->alignment[0]) || !is_aligned(b, algorithm->alignment[1]) ||
      !is_aligned(c, algorithm->alignment[2]) || !is_aligned(d, algorithm->alignment[3]) ||
      !is_aligned(p.bias, algorithm->alignment[3]))
    return CUBLAS_STATUS_INVALID_VALUE;
  p.a = operand(a, a_layout, a_transposed, operation->compute);
  p.b = operand(b, b_layout, operation->transposed[1] == CUBLAS_OP_T, operation->compute);
  p.c_stride = c_layout->stride;
  p.d_stride = d_layout->stride;
  p.rows = (int64_t)d_layout->rows;
  p.columns = (int64_t)d_layout->columns;
  p.inner = (int64_t)(a_transposed ? a_layout->rows : a_layout->columns);
  p.alpha = *(const float *)alpha;
  p.beta = *(const float *)beta;
  if (p.d_is_bf16 && (p.bias || p.beta != 0)) return CUBLAS_STATUS_NOT_SUPPORTED; /* as yet */
  LAUNCH(emulated_multiply, blocks_for((size_t)(p.rows * p.columns)), BLOCK, stream, p);
  return CUBLAS_STATUS_SUCCESS;
}
