#include "learner/device/cuda/blas.h"

#include <dlfcn.h>
#include <stdlib.h>

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#ifndef CUBLAS_LIBRARY
#define CUBLAS_LIBRARY "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)
#endif

void blas_check(const struct blas *blas, const char *file, int line, const char *call,
                cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    cuda_failed(file, line, call, blas->cublasLtGetStatusName(status),
                blas->cublasLtGetStatusString(status));
}

/* NULL, or the function that the library lacks. */
static const char *find_functions(struct blas *blas, void *library) {
#define BLAS_FIND(name) \
  if (!(blas->name = (decltype(&::name))dlsym(library, #name))) return #name;
  BLAS_FUNCTIONS(BLAS_FIND)
#undef BLAS_FIND
  return NULL;
}

/* Errors: UNAVAILABLE, MISMATCH, with what was not found. */
static enum status load(struct blas *blas, struct error *error) {
  const char *name = CUBLAS_LIBRARY;
  void *library = name ? cuda_library(name) : RTLD_DEFAULT;
  if (name && !library)
    return status_fail(error, STATUS_UNAVAILABLE,
                       "%s is in none of LD_LIBRARY_PATH, CUDA's folder and pip's", name);
  const char *lacks = find_functions(blas, library);
  if (lacks) return status_fail(error, STATUS_MISMATCH, "%s has no %s", name, lacks);
  int version = (int)blas->cublasLtGetVersion();
  if (version / 10000 != CUBLAS_VER_MAJOR)
    return status_fail(error, STATUS_MISMATCH, "cuBLAS %d.%d is here, the plugin is built for %d",
                       version / 10000, version % 10000 / 100, CUBLAS_VER_MAJOR);
  BLAS_CHECK(blas, cublasLtCreate(&blas->handle));
  blas->present = true;
  return STATUS_OK;
}

void cuda_blas_warn(const struct blas *blas) {
  static bool warned;
  if (blas->missing.text[0])
    cuda_warn_once(&warned,
                   "device cuda: %s: Acorn's own kernel computes products, which is slower where "
                   "they are large; scripts/setup.sh cuda installs cuBLAS",
                   blas->missing.text);
}

struct blas *cuda_blas(struct cuda *cuda) {
  if (cuda->blas) return (struct blas *)cuda->blas;
  struct blas *blas = (struct blas *)check_alloc(1, sizeof *blas);
  if (!cuda->without[CUDA_BLAS]) (void)!load(blas, &blas->missing);
  blas->workspace = cuda->device.ops->alloc(&cuda->device, BLAS_WORKSPACE_BYTES);
  cuda->blas = blas;
  return blas;
}

void cuda_blas_destroy(struct cuda *cuda) {
  struct blas *blas = (struct blas *)cuda->blas;
  cuda->device.ops->release(&cuda->device, blas->workspace);
  if (blas->present) BLAS_CHECK(blas, cublasLtDestroy(blas->handle));
  free(blas);
  cuda->blas = NULL;
}
