/* A library in CUDA's folder that is none of CUDA's: see no_blas in cublasLt.h. */
__attribute__((visibility("default"))) int absent_cuda_function(void);

int absent_cuda_function(void) {
  return 0;
}
