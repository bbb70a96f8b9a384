/* cuDNN as far as the plugin uses it: naive convolutions on the emulated runtime, pixel after pixel
 * (NHWC) in float. ACORN_EMULATED_CUDA=no_dnn: as if it were not installed; dnn_refuses:PASS, which
 * is forward, inputs or weights: such a convolution is offered and then refused; dnn_lacks:PASS: it
 * is not offered. Counted besides the convolutions: "choose PASS", which asks for offers.
 * Upstream: learner/device/cuda/conv_dnn.cu. */
#ifndef ACORN_TESTS_EMULATED_CUDA_CUDNN_H
#define ACORN_TESTS_EMULATED_CUDA_CUDNN_H

#include <stddef.h>

#include "cuda_runtime.h"

/* Not to be loaded: it is part of this program. */
#define CUDNN_LIBRARY NULL

typedef enum {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000
} cudnnStatus_t;
typedef enum { CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC } cudnnTensorFormat_t;
typedef enum { CUDNN_DATA_FLOAT } cudnnDataType_t;
typedef enum { CUDNN_CONVOLUTION, CUDNN_CROSS_CORRELATION } cudnnConvolutionMode_t;
typedef enum { CUDNN_DEFAULT_MATH = 0, CUDNN_TENSOR_OP_MATH, CUDNN_FMA_MATH = 3 } cudnnMathType_t;
typedef enum { CUDNN_NON_DETERMINISTIC, CUDNN_DETERMINISTIC } cudnnDeterminism_t;
typedef enum { EMULATED_FORWARD, EMULATED_FORWARD_OF_TENSORS } cudnnConvolutionFwdAlgo_t;
typedef enum { EMULATED_INPUTS, EMULATED_INPUTS_OF_TENSORS } cudnnConvolutionBwdDataAlgo_t;
typedef enum { EMULATED_WEIGHTS, EMULATED_WEIGHTS_OF_TENSORS } cudnnConvolutionBwdFilterAlgo_t;

typedef struct emulated_dnn *cudnnHandle_t;
typedef struct emulated_tensor *cudnnTensorDescriptor_t;
typedef struct emulated_filter *cudnnFilterDescriptor_t;
typedef struct emulated_window *cudnnConvolutionDescriptor_t;

#define EMULATED_OFFER(name, type)  \
  typedef struct {                  \
    type algo;                      \
    cudnnStatus_t status;           \
    float time;                     \
    size_t memory;                  \
    cudnnDeterminism_t determinism; \
    cudnnMathType_t mathType;       \
  } name;
EMULATED_OFFER(cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t)
EMULATED_OFFER(cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t)
EMULATED_OFFER(cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t)
#undef EMULATED_OFFER

#pragma GCC visibility push(default)
extern "C" {
const char *cudnnGetErrorString(cudnnStatus_t status);
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *x);
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t x);
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t x, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w);
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *x);
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t x);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t x, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w);
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *x);
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t x);
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t x, int above, int left,
                                              int down, int across, int down_dilation,
                                              int across_dilation, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute);
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t x, cudnnMathType_t math);
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t window, cudnnTensorDescriptor_t y, int wanted, int *count,
    cudnnConvolutionFwdAlgoPerf_t *offer);
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t window, cudnnTensorDescriptor_t dx, int wanted, int *count,
    cudnnConvolutionBwdDataAlgoPerf_t *offer);
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t window, cudnnFilterDescriptor_t dw, int wanted, int *count,
    cudnnConvolutionBwdFilterAlgoPerf_t *offer);
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      cudnnTensorDescriptor_t x_shape, const void *x,
                                      cudnnFilterDescriptor_t w_shape, const void *w,
                                      cudnnConvolutionDescriptor_t window,
                                      cudnnConvolutionFwdAlgo_t algorithm, void *workspace,
                                      size_t bytes, const void *beta,
                                      cudnnTensorDescriptor_t y_shape, void *y);
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           cudnnFilterDescriptor_t w_shape, const void *w,
                                           cudnnTensorDescriptor_t dy_shape, const void *dy,
                                           cudnnConvolutionDescriptor_t window,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void *workspace,
                                           size_t bytes, const void *beta,
                                           cudnnTensorDescriptor_t dx_shape, void *dx);
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                             cudnnTensorDescriptor_t x_shape, const void *x,
                                             cudnnTensorDescriptor_t dy_shape, const void *dy,
                                             cudnnConvolutionDescriptor_t window,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void *workspace, size_t bytes, const void *beta,
                                             cudnnFilterDescriptor_t dw_shape, void *dw);
}
#pragma GCC visibility pop

#endif
