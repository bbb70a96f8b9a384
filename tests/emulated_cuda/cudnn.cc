/* Naive convolutions in place of cuDNN: kernels of the emulated runtime, a thread for each number
 * that is written. */
#include "cudnn.h"

#include <stdlib.h>

#include "internal.h"
#include "learner/device/cuda/portable.h"

struct emulated_dnn {
  cudaStream_t stream;
};

struct emulated_tensor {
  int n, c, h, w;
};

struct emulated_filter {
  int k, c, h, w;
};

struct emulated_window {
  int above, left, down, across;
  cudnnMathType_t math;
};

const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "success" : "the emulated cuDNN refuses this";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  const char *machine = getenv("ACORN_EMULATED_CUDA");
  if (machine && strstr(machine, "no_dnn")) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = new emulated_dnn{NULL};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

template <typename T>
static cudnnStatus_t create(T **x) {
  *x = new T();
  return CUDNN_STATUS_SUCCESS;
}

template <typename T>
static cudnnStatus_t destroy(T *x) {
  delete x;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return destroy(handle);
}
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *x) {
  return create(x);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t x) {
  return destroy(x);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *x) {
  return create(x);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t x) {
  return destroy(x);
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *x) {
  return create(x);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t x) {
  return destroy(x);
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t x, cudnnTensorFormat_t format,
                                         cudnnDataType_t, int n, int c, int h, int w) {
  if (format != CUDNN_TENSOR_NHWC) return CUDNN_STATUS_BAD_PARAM;
  *x = emulated_tensor{n, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t x, cudnnDataType_t,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  if (format != CUDNN_TENSOR_NHWC) return CUDNN_STATUS_BAD_PARAM;
  *x = emulated_filter{k, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t x, int above, int left,
                                              int down, int across, int down_dilation,
                                              int across_dilation, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t) {
  if (down_dilation != 1 || across_dilation != 1 || mode != CUDNN_CROSS_CORRELATION)
    return CUDNN_STATUS_BAD_PARAM;
  *x = emulated_window{above, left, down, across, CUDNN_DEFAULT_MATH};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t x, cudnnMathType_t math) {
  x->math = math;
  return CUDNN_STATUS_SUCCESS;
}

/* ---- the choice: three offers, of which the faster ones may not be taken: the second is for
 * tensor cores, and in float32 that is all that is wrong with it. Whatever the descriptor says, the
 * last one for the gradient of the inputs is for FMA alone, as cuDNN mixes them */

static int places(int length, int zeros, int size, int stride) {
  return (length + 2 * zeros - size) / stride + 1;
}

static bool agree(const emulated_tensor *x, const emulated_filter *w, const emulated_window *window,
                  const emulated_tensor *y) {
  return x->n == y->n && x->c == w->c && y->c == w->k &&
         y->h == places(x->h, window->above, w->h, window->down) &&
         y->w == places(x->w, window->left, w->w, window->across);
}

/* Whether the text up to its end or a comma is this word. */
static bool is_word(const char *text, const char *word) {
  size_t length = strcspn(text, ",");
  return length == strlen(word) && strncmp(text, word, length) == 0;
}

/* Whether ACORN_EMULATED_CUDA has the word (dnn_refuses:, dnn_lacks:) with that pass. */
static bool has_word(const char *word, const char *pass) {
  const char *found = getenv("ACORN_EMULATED_CUDA");
  while (found && (found = strstr(found, word))) {
    found += strlen(word);
    if (is_word(found, pass)) return true;
    if (!is_word(found, "forward") && !is_word(found, "inputs") && !is_word(found, "weights"))
      EMULATED_FAIL("ACORN_EMULATED_CUDA: %s has no pass '%s': forward, inputs or weights", word,
                    found);
  }
  return false;
}

template <typename F>
static cudnnStatus_t make_offers(const char *pass, bool possible, const emulated_window *window,
                                 cudnnMathType_t math, int wanted, int *count, F *offer) {
  if (!possible || wanted < 3) return CUDNN_STATUS_BAD_PARAM;
  if (has_word("dnn_lacks:", pass)) return CUDNN_STATUS_NOT_SUPPORTED;
  for (int i = 0; i < 3; i++) {
    offer[i] = F();
    offer[i].memory = i == 0 ? 0 : 4096;
    offer[i].algo = (decltype(F::algo))(i == 1);
    offer[i].mathType = i == 1 ? CUDNN_TENSOR_OP_MATH : math;
    bool may = i == 2 || (i == 1 && window->math == CUDNN_FMA_MATH);
    offer[i].determinism = may ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
  }
  *count = 3;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t window,
                                                     cudnnTensorDescriptor_t y, int wanted,
                                                     int *count,
                                                     cudnnConvolutionFwdAlgoPerf_t *offer) {
  COUNT_CALL("choose forward");
  return make_offers("forward", agree(x, w, window, y), window, window->math, wanted, count, offer);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t window, cudnnTensorDescriptor_t dx, int wanted, int *count,
    cudnnConvolutionBwdDataAlgoPerf_t *offer) {
  COUNT_CALL("choose inputs");
  return make_offers("inputs", agree(dx, w, window, dy), window, CUDNN_FMA_MATH, wanted, count,
                     offer);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t window, cudnnFilterDescriptor_t dw, int wanted, int *count,
    cudnnConvolutionBwdFilterAlgoPerf_t *offer) {
  COUNT_CALL("choose weights");
  return make_offers("weights", agree(x, dw, window, dy), window, window->math, wanted, count,
                     offer);
}

/* ---- the convolutions */

struct emulated_convolution {
  struct emulated_tensor x, y;
  struct emulated_filter w;
  struct emulated_window window;
};

/* Index of the number of x that place (i, j) of the window of pixel (n, row, column) of y reads;
 * -1: a zero around the image. */
static int64_t read_at(const emulated_convolution &v, int n, int row, int column, int i, int j,
                       int c) {
  int from_row = row * v.window.down - v.window.above + i,
      from_column = column * v.window.across - v.window.left + j;
  if (from_row < 0 || from_row >= v.x.h || from_column < 0 || from_column >= v.x.w) return -1;
  return (((int64_t)n * v.x.h + from_row) * v.x.w + from_column) * v.x.c + c;
}

static int64_t weight_at(const emulated_convolution &v, int k, int i, int j, int c) {
  return (((int64_t)k * v.w.h + i) * v.w.w + j) * v.w.c + c;
}

static int64_t written_at(const emulated_convolution &v, int n, int row, int column, int k) {
  return (((int64_t)n * v.y.h + row) * v.y.w + column) * v.y.c + k;
}

KERNEL emulated_forward(float *y, const float *x, const float *w, emulated_convolution v) {
  int64_t count = (int64_t)v.y.n * v.y.h * v.y.w * v.y.c;
  for (int64_t at = (int64_t)grid_first(); at < count; at += (int64_t)grid_step()) {
    int k = (int)(at % v.y.c), column = (int)(at / v.y.c % v.y.w),
        row = (int)(at / v.y.c / v.y.w % v.y.h), n = (int)(at / v.y.c / v.y.w / v.y.h);
    double sum = 0;
    for (int i = 0; i < v.w.h; i++)
      for (int j = 0; j < v.w.w; j++)
        for (int c = 0; c < v.w.c; c++) {
          int64_t from = read_at(v, n, row, column, i, j, c);
          if (from >= 0) sum += x[from] * w[weight_at(v, k, i, j, c)];
        }
    y[at] = (float)sum;
  }
}

/* One thread: it goes through the forward pass and adds up. */
KERNEL emulated_inputs(float *dx, const float *dy, const float *w, emulated_convolution v) {
  int64_t count = (int64_t)v.x.n * v.x.h * v.x.w * v.x.c;
  for (int64_t i = 0; i < count; i++) dx[i] = 0;
  for (int n = 0; n < v.y.n; n++)
    for (int row = 0; row < v.y.h; row++)
      for (int column = 0; column < v.y.w; column++)
        for (int i = 0; i < v.w.h; i++)
          for (int j = 0; j < v.w.w; j++)
            for (int c = 0; c < v.w.c; c++) {
              int64_t to = read_at(v, n, row, column, i, j, c);
              for (int k = 0; to >= 0 && k < v.w.k; k++)
                dx[to] += dy[written_at(v, n, row, column, k)] * w[weight_at(v, k, i, j, c)];
            }
}

KERNEL emulated_weights(float *dw, const float *x, const float *dy, emulated_convolution v) {
  int64_t count = (int64_t)v.w.k * v.w.h * v.w.w * v.w.c;
  for (int64_t at = (int64_t)grid_first(); at < count; at += (int64_t)grid_step()) {
    int c = (int)(at % v.w.c), j = (int)(at / v.w.c % v.w.w), i = (int)(at / v.w.c / v.w.w % v.w.h),
        k = (int)(at / v.w.c / v.w.w / v.w.h);
    double sum = 0;
    for (int n = 0; n < v.y.n; n++)
      for (int row = 0; row < v.y.h; row++)
        for (int column = 0; column < v.y.w; column++) {
          int64_t from = read_at(v, n, row, column, i, j, c);
          if (from >= 0) sum += x[from] * dy[written_at(v, n, row, column, k)];
        }
    dw[at] = (float)sum;
  }
}

/* What was offered for other arithmetic must not be asked for, or no test would notice. */
static cudnnStatus_t check(const char *pass, int algorithm, const void *alpha, const void *beta,
                           size_t bytes) {
  if (has_word("dnn_refuses:", pass)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (algorithm != 0 || *(const float *)alpha != 1 || *(const float *)beta != 0 || bytes < 4096)
    EMULATED_FAIL("cuDNN's convolution '%s' by algorithm %d with %zu bytes of workspace", pass,
                  algorithm, bytes);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      cudnnTensorDescriptor_t x_shape, const void *x,
                                      cudnnFilterDescriptor_t w_shape, const void *w,
                                      cudnnConvolutionDescriptor_t window,
                                      cudnnConvolutionFwdAlgo_t algorithm, void *, size_t bytes,
                                      const void *beta, cudnnTensorDescriptor_t y_shape, void *y) {
  COUNT_CALL("cudnnConvolutionForward");
  cudnnStatus_t status = check("forward", algorithm, alpha, beta, bytes);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  emulated_convolution v = {*x_shape, *y_shape, *w_shape, *window};
  LAUNCH(emulated_forward, 16, BLOCK, handle->stream, (float *)y, (const float *)x,
         (const float *)w, v);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           cudnnFilterDescriptor_t w_shape, const void *w,
                                           cudnnTensorDescriptor_t dy_shape, const void *dy,
                                           cudnnConvolutionDescriptor_t window,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void *,
                                           size_t bytes, const void *beta,
                                           cudnnTensorDescriptor_t dx_shape, void *dx) {
  COUNT_CALL("cudnnConvolutionBackwardData");
  cudnnStatus_t status = check("inputs", algorithm, alpha, beta, bytes);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (window->math != CUDNN_FMA_MATH) EMULATED_FAIL("cuDNN's convolution 'inputs' in tf32");
  emulated_convolution v = {*dx_shape, *dy_shape, *w_shape, *window};
  LAUNCH(emulated_inputs, 1, 1, handle->stream, (float *)dx, (const float *)dy, (const float *)w,
         v);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                             cudnnTensorDescriptor_t x_shape, const void *x,
                                             cudnnTensorDescriptor_t dy_shape, const void *dy,
                                             cudnnConvolutionDescriptor_t window,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void *,
                                             size_t bytes, const void *beta,
                                             cudnnFilterDescriptor_t dw_shape, void *dw) {
  COUNT_CALL("cudnnConvolutionBackwardFilter");
  cudnnStatus_t status = check("weights", algorithm, alpha, beta, bytes);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  emulated_convolution v = {*x_shape, *dy_shape, *dw_shape, *window};
  LAUNCH(emulated_weights, 16, BLOCK, handle->stream, (float *)dw, (const float *)x,
         (const float *)dy, v);
  return CUDNN_STATUS_SUCCESS;
}
