/* cuBLASLt reads column by column: our row-major c = a b is to it c^T = b^T a^T, so that our b is
 * its A and our a is its B. */
#include "learner/device/cuda/product.h"

#include <cublasLt.h>
#include <stdlib.h>

#include "learner/device/cuda/blas.h"

struct operand operand_of(const void *at, int stride) {
  struct operand operand = {at, stride, false};
  return operand;
}

struct operand operand_transposed(const void *at, int stride) {
  struct operand operand = {at, stride, true};
  return operand;
}

/* ---- what tells one plan from another */

/* The power of two that an address is a multiple of, at most 256. */
static uint32_t alignment_of(const void *at) {
  uint32_t low = (uint32_t)((uintptr_t)at & 255);
  return low ? low & -low : 256;
}

/* Kernels read the bias as wide as they write: cuBLASLt has no preference for its alignment. */
static uint32_t alignment_with(uint32_t alignment, const void *bias) {
  uint32_t of_bias = bias ? alignment_of(bias) : 256;
  return of_bias < alignment ? of_bias : alignment;
}

static bool is_tf32(const struct cuda *cuda, const struct product *p) {
  return !p->bf16 && (cuda->tf32 || cuda->bf16);
}

static struct plan_key key_of(const struct cuda *cuda, const struct product *p) {
  struct plan_key key;
  memset(&key, 0, sizeof key); /* the padding is compared too */
  key.M = p->M;
  key.N = p->N;
  key.K = p->K;
  key.a_stride = p->a.stride;
  key.b_stride = p->b.stride;
  key.c_stride = p->c_stride;
  key.a_alignment = alignment_of(p->a.at);
  key.b_alignment = alignment_of(p->b.at);
  key.c_alignment = alignment_of(p->c);
  key.d_alignment = alignment_with(key.c_alignment, p->bias);
  key.a_transposed = p->a.transposed;
  key.b_transposed = p->b.transposed;
  key.bf16 = p->bf16;
  key.c_bf16 = p->c_bf16;
  key.tf32 = is_tf32(cuda, p);
  key.add = p->add;
  key.bias = p->bias != NULL;
  key.relu = p->relu;
  return key;
}

/* ---- making a plan */

static cublasLtMatrixLayout_t layout_of(struct blas *blas, bool bf16, int rows, int columns,
                                        int stride) {
  cublasLtMatrixLayout_t layout;
  BLAS_CHECK(blas, cublasLtMatrixLayoutCreate(&layout, bf16 ? CUDA_R_16BF : CUDA_R_32F,
                                              (uint64_t)columns, (uint64_t)rows, stride));
  return layout;
}

/* Of an operand that the product reads as (rows, columns). */
static cublasLtMatrixLayout_t layout_of_operand(struct blas *blas, const struct operand *x,
                                                bool bf16, int rows, int columns) {
  return x->transposed ? layout_of(blas, bf16, columns, rows, x->stride)
                       : layout_of(blas, bf16, rows, columns, x->stride);
}

static void set_transposed(struct blas *blas, cublasLtMatmulDesc_t operation,
                           cublasLtMatmulDescAttributes_t which, bool transposed) {
  cublasOperation_t how = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  BLAS_CHECK(blas, cublasLtMatmulDescSetAttribute(operation, which, &how, sizeof how));
}

static void set_alignment(struct blas *blas, cublasLtMatmulPreference_t preference,
                          cublasLtMatmulPreferenceAttributes_t which, uint32_t alignment) {
  BLAS_CHECK(blas,
             cublasLtMatmulPreferenceSetAttribute(preference, which, &alignment, sizeof alignment));
}

/* The bias is set again for each product: a choice depends on that there is one. */
static void set_bias(struct blas *blas, cublasLtMatmulDesc_t operation, const float *bias) {
  BLAS_CHECK(blas, cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                  &bias, sizeof bias));
}

static cublasLtMatmulDesc_t operation_of(struct blas *blas, const struct plan_key *key) {
  cublasLtMatmulDesc_t operation;
  cublasComputeType_t compute = key->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  BLAS_CHECK(blas, cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F));
  set_transposed(blas, operation, CUBLASLT_MATMUL_DESC_TRANSA, key->b_transposed);
  set_transposed(blas, operation, CUBLASLT_MATMUL_DESC_TRANSB, key->a_transposed);
  cublasLtEpilogue_t after = key->bias
                                 ? key->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                             : key->relu ? CUBLASLT_EPILOGUE_RELU
                                         : CUBLASLT_EPILOGUE_DEFAULT;
  BLAS_CHECK(blas, cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &after,
                                                  sizeof after));
  return operation;
}

static void warn_of_shape(const struct plan_key *key) {
  static bool warned;
  cuda_warn_once(&warned,
                 "device cuda: cuBLAS has no algorithm for a product of (%d, %d) and (%d, %d): "
                 "Acorn's own kernel computes it, which is slower",
                 key->M, key->K, key->K, key->N);
}

/* The algorithm that cuBLASLt thinks fastest. The same shape gets the same one on the same GPU. */
static void choose_algorithm(struct blas *blas, struct plan *plan) {
  cublasLtMatmulPreference_t preference;
  size_t workspace = BLAS_WORKSPACE_BYTES;
  BLAS_CHECK(blas, cublasLtMatmulPreferenceCreate(&preference));
  BLAS_CHECK(blas, cublasLtMatmulPreferenceSetAttribute(preference,
                                                        CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                        &workspace, sizeof workspace));
  const struct plan_key *key = &plan->key;
  set_alignment(blas, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key->b_alignment);
  set_alignment(blas, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key->a_alignment);
  set_alignment(blas, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key->c_alignment);
  set_alignment(blas, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key->d_alignment);
  cublasLtMatmulHeuristicResult_t found;
  int count = 0;
  cublasStatus_t status =
      blas->cublasLtMatmulAlgoGetHeuristic(blas->handle, plan->operation, plan->a, plan->b, plan->c,
                                           plan->c, preference, 1, &found, &count);
  /* ARCH_MISMATCH: the GPU is newer than the library. */
  if (status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_ARCH_MISMATCH)
    blas_check(blas, __FILE__, __LINE__, "cublasLtMatmulAlgoGetHeuristic", status);
  plan->usable = status == CUBLAS_STATUS_SUCCESS && count > 0;
  if (plan->usable)
    plan->algorithm = found.algo;
  else
    warn_of_shape(key);
  BLAS_CHECK(blas, cublasLtMatmulPreferenceDestroy(preference));
}

static struct plan *plan_create(struct blas *blas, const struct plan_key *key,
                                const struct product *p) {
  if (blas->num_plans == blas->max_plans) {
    blas->max_plans = blas->max_plans ? 2 * blas->max_plans : 64;
    blas->plan = (struct plan *)realloc(blas->plan, (size_t)blas->max_plans * sizeof *blas->plan);
    CHECK(blas->plan, "no memory for %d plans of products", blas->max_plans);
  }
  struct plan *plan = &blas->plan[blas->num_plans++];
  plan->key = *key;
  plan->operation = operation_of(blas, key);
  if (p->bias) set_bias(blas, plan->operation, p->bias);
  plan->a = layout_of_operand(blas, &p->b, p->bf16, p->K, p->N);
  plan->b = layout_of_operand(blas, &p->a, p->bf16, p->M, p->K);
  plan->c = layout_of(blas, p->c_bf16, p->M, p->N, p->c_stride);
  choose_algorithm(blas, plan);
  return plan;
}

static struct plan *plan_for(struct cuda *cuda, const struct product *p) {
  struct blas *blas = cuda_blas(cuda);
  struct plan_key key = key_of(cuda, p);
  for (int i = 0; i < blas->num_plans; i++)
    if (memcmp(&blas->plan[i].key, &key, sizeof key) == 0) return &blas->plan[i];
  return plan_create(blas, &key, p);
}

/* ---- multiply */

static void multiply_by_plan(struct cuda *cuda, struct plan *plan, const struct product *p) {
  struct blas *blas = cuda_blas(cuda);
  float one = 1, c_factor = p->add ? 1 : 0;
  if (p->bias) set_bias(blas, plan->operation, p->bias);
  BLAS_CHECK(blas,
             cublasLtMatmul(blas->handle, plan->operation, &one, p->b.at, plan->a, p->a.at, plan->b,
                            &c_factor, p->c, plan->c, p->c, plan->c, &plan->algorithm,
                            blas->workspace, BLAS_WORKSPACE_BYTES, cuda->stream));
}

static_assert((int)PRODUCT_ROOM_BYTES <= (int)BLAS_WORKSPACE_BYTES, "one workspace for both ways");

void cuda_multiply(struct cuda *cuda, const struct product *p) {
  CHECK(p->M > 0 && p->N > 0 && p->K > 0, "a product of (%d, %d) and (%d, %d)", p->M, p->K, p->K,
        p->N);
  CHECK(!p->c_bf16 || !(p->bias || p->add), "a product in bf16 with a bias or added to");
  struct blas *blas = cuda_blas(cuda);
  struct plan *plan = blas->present ? plan_for(cuda, p) : NULL;
  if (!blas->present) cuda_blas_warn(blas);
  if (plan && plan->usable)
    multiply_by_plan(cuda, plan, p);
  else
    product_in_tiles(cuda, p, is_tf32(cuda, p), (float *)blas->workspace);
}

void cuda_product_destroy(struct cuda *cuda) {
  struct blas *blas = (struct blas *)cuda->blas;
  if (!blas) return;
  for (int i = 0; i < blas->num_plans; i++) {
    struct plan *plan = &blas->plan[i];
    BLAS_CHECK(blas, cublasLtMatmulDescDestroy(plan->operation));
    cublasLtMatrixLayout_t layouts[] = {plan->a, plan->b, plan->c};
    for (int k = 0; k < 3; k++) BLAS_CHECK(blas, cublasLtMatrixLayoutDestroy(layouts[k]));
  }
  free(blas->plan);
  cuda_weights_destroy(cuda);
  cuda_blas_destroy(cuda);
}
