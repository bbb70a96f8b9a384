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
  key.tf32 = !p->bf16 && (cuda->tf32 || cuda->bf16);
  key.add = p->add;
  key.bias = p->bias != NULL;
  key.relu = p->relu;
  return key;
}

/* ---- making a plan */

static cublasLtMatrixLayout_t layout_of(bool bf16, int rows, int columns, int stride) {
  cublasLtMatrixLayout_t layout;
  BLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, bf16 ? CUDA_R_16BF : CUDA_R_32F, (uint64_t)columns,
                                        (uint64_t)rows, stride));
  return layout;
}

/* Of an operand that the product reads as (rows, columns). */
static cublasLtMatrixLayout_t layout_of_operand(const struct operand *x, bool bf16, int rows,
                                                int columns) {
  return x->transposed ? layout_of(bf16, columns, rows, x->stride)
                       : layout_of(bf16, rows, columns, x->stride);
}

static void set_transposed(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t which,
                           bool transposed) {
  cublasOperation_t how = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  BLAS_CHECK(cublasLtMatmulDescSetAttribute(operation, which, &how, sizeof how));
}

static void set_alignment(cublasLtMatmulPreference_t preference,
                          cublasLtMatmulPreferenceAttributes_t which, uint32_t alignment) {
  BLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, which, &alignment, sizeof alignment));
}

/* The bias is set again for each product: a choice depends on that there is one. */
static void set_bias(cublasLtMatmulDesc_t operation, const float *bias) {
  BLAS_CHECK(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                            sizeof bias));
}

static cublasLtMatmulDesc_t operation_of(const struct plan_key *key) {
  cublasLtMatmulDesc_t operation;
  cublasComputeType_t compute = key->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  BLAS_CHECK(cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F));
  set_transposed(operation, CUBLASLT_MATMUL_DESC_TRANSA, key->b_transposed);
  set_transposed(operation, CUBLASLT_MATMUL_DESC_TRANSB, key->a_transposed);
  cublasLtEpilogue_t after = key->bias
                                 ? key->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                             : key->relu ? CUBLASLT_EPILOGUE_RELU
                                         : CUBLASLT_EPILOGUE_DEFAULT;
  BLAS_CHECK(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &after,
                                            sizeof after));
  return operation;
}

/* The algorithm that cuBLASLt thinks fastest. The same shape gets the same one on the same GPU. */
static void choose_algorithm(struct blas *blas, struct plan *plan) {
  cublasLtMatmulPreference_t preference;
  size_t workspace = BLAS_WORKSPACE_BYTES;
  BLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  BLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
  const struct plan_key *key = &plan->key;
  set_alignment(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key->b_alignment);
  set_alignment(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key->a_alignment);
  set_alignment(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key->c_alignment);
  set_alignment(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key->d_alignment);
  cublasLtMatmulHeuristicResult_t found;
  int count = 0;
  BLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(blas->handle, plan->operation, plan->a, plan->b,
                                            plan->c, plan->c, preference, 1, &found, &count));
  CHECK(count > 0, "cuBLAS has no way to multiply (%d, %d) by (%d, %d)", key->M, key->K, key->K,
        key->N);
  plan->algorithm = found.algo;
  BLAS_CHECK(cublasLtMatmulPreferenceDestroy(preference));
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
  plan->operation = operation_of(key);
  if (p->bias) set_bias(plan->operation, p->bias);
  plan->a = layout_of_operand(&p->b, p->bf16, p->K, p->N);
  plan->b = layout_of_operand(&p->a, p->bf16, p->M, p->K);
  plan->c = layout_of(p->c_bf16, p->M, p->N, p->c_stride);
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

void cuda_multiply(struct cuda *cuda, const struct product *p) {
  CHECK(!p->c_bf16 || !(p->bias || p->add), "a product in bf16 with a bias or added to");
  struct plan *plan = plan_for(cuda, p);
  struct blas *blas = cuda_blas(cuda);
  float one = 1, c_factor = p->add ? 1 : 0;
  if (p->bias) set_bias(plan->operation, p->bias);
  BLAS_CHECK(cublasLtMatmul(blas->handle, plan->operation, &one, p->b.at, plan->a, p->a.at, plan->b,
                            &c_factor, p->c, plan->c, p->c, plan->c, &plan->algorithm,
                            blas->workspace, BLAS_WORKSPACE_BYTES, cuda->stream));
}

/* ---- what is kept */

void cuda_blas_failed(const char *file, int line, const char *call, int status) {
  cuda_failed(file, line, call, cublasLtGetStatusName((cublasStatus_t)status),
              cublasLtGetStatusString((cublasStatus_t)status));
}

struct blas *cuda_blas(struct cuda *cuda) {
  if (cuda->blas) return (struct blas *)cuda->blas;
  struct blas *blas = (struct blas *)calloc(1, sizeof *blas);
  CHECK(blas, "no memory");
  BLAS_CHECK(cublasLtCreate(&blas->handle));
  blas->workspace = cuda->device.ops->alloc(&cuda->device, BLAS_WORKSPACE_BYTES);
  cuda->blas = blas;
  return blas;
}

void cuda_product_destroy(struct cuda *cuda) {
  struct blas *blas = (struct blas *)cuda->blas;
  if (!blas) return;
  for (int i = 0; i < blas->num_plans; i++) {
    struct plan *plan = &blas->plan[i];
    BLAS_CHECK(cublasLtMatmulDescDestroy(plan->operation));
    cublasLtMatrixLayout_t layouts[] = {plan->a, plan->b, plan->c};
    for (int k = 0; k < 3; k++) BLAS_CHECK(cublasLtMatrixLayoutDestroy(layouts[k]));
  }
  cuda_weights_destroy(cuda);
  cuda->device.ops->release(&cuda->device, blas->workspace);
  BLAS_CHECK(cublasLtDestroy(blas->handle));
  free(blas->plan);
  free(blas);
  cuda->blas = NULL;
}
