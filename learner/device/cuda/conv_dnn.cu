/* Convolutions in float and tf32 by cuDNN, which is looked for when the first one is asked for: the
 * program runs without it. Only algorithms that sum in a fixed order are used; a pass for which
 * cuDNN offers none, or refuses its own offer when it is first used, goes by columns. cuDNN wants
 * weights with the outputs first (O, places, C), so each pass copies them on its way. */
#include <cudnn.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "learner/device/cuda/columns.h"
#include "learner/device/cuda/conv.h"

#ifndef CUDNN_LIBRARY
#define CUDNN_LIBRARY "libcudnn.so.9"
#endif

#define DNN_FUNCTIONS(X)                           \
  X(cudnnGetErrorString)                           \
  X(cudnnCreate)                                   \
  X(cudnnDestroy)                                  \
  X(cudnnSetStream)                                \
  X(cudnnCreateTensorDescriptor)                   \
  X(cudnnDestroyTensorDescriptor)                  \
  X(cudnnSetTensor4dDescriptor)                    \
  X(cudnnCreateFilterDescriptor)                   \
  X(cudnnDestroyFilterDescriptor)                  \
  X(cudnnSetFilter4dDescriptor)                    \
  X(cudnnCreateConvolutionDescriptor)              \
  X(cudnnDestroyConvolutionDescriptor)             \
  X(cudnnSetConvolution2dDescriptor)               \
  X(cudnnSetConvolutionMathType)                   \
  X(cudnnGetConvolutionForwardAlgorithm_v7)        \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7)   \
  X(cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
  X(cudnnConvolutionForward)                       \
  X(cudnnConvolutionBackwardData)                  \
  X(cudnnConvolutionBackwardFilter)

enum dnn_pass { DNN_FORWARD, DNN_INPUTS, DNN_WEIGHTS, DNN_PASSES };

/* What cuDNN needs for one shape; each pass is worked out when it is first asked for. Forward and
 * backward passes are independent: where one has no algorithm the other keeps its own. A backward
 * pass needs that of the weights and, where it has dx, that of the inputs. */
struct dnn_plan {
  struct conv_shape shape;
  bool tf32, asked[DNN_PASSES], usable[DNN_PASSES], worked[DNN_PASSES]; /* worked: at least once */
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t window[DNN_PASSES]; /* each with the arithmetic of its algorithm */
  cudnnConvolutionFwdAlgo_t forward;
  cudnnConvolutionBwdDataAlgo_t inputs;
  cudnnConvolutionBwdFilterAlgo_t weights;
  size_t bytes[DNN_PASSES]; /* of workspace */
};

struct dnn {
  bool present;
#define DNN_MEMBER(name) decltype(&::name) name;
  DNN_FUNCTIONS(DNN_MEMBER)
#undef DNN_MEMBER
  cudnnHandle_t handle;
  struct dnn_plan *plan;
  int num_plans, max_plans;
};

#define DNN_CHECK(dnn, call)                                                                   \
  do {                                                                                         \
    cudnnStatus_t dnn_status = (dnn)->call;                                                    \
    if (dnn_status != CUDNN_STATUS_SUCCESS)                                                    \
      cuda_failed(__FILE__, __LINE__, #call, "cuDNN", (dnn)->cudnnGetErrorString(dnn_status)); \
  } while (0)

/* ---- finding it */

/* False where a symbol is missing. */
static bool find_functions(struct dnn *dnn, void *library) {
#define DNN_FIND(name) \
  if (!(dnn->name = (decltype(&::name))dlsym(library, #name))) return false;
  DNN_FUNCTIONS(DNN_FIND)
#undef DNN_FIND
  return true;
}

static struct dnn *dnn_of(struct cuda *cuda) {
  if (cuda->dnn) return (struct dnn *)cuda->dnn;
  struct dnn *dnn = (struct dnn *)calloc(1, sizeof *dnn);
  CHECK(dnn, "no memory");
  const char *name = CUDNN_LIBRARY;
  void *library = name ? cuda_library(name) : RTLD_DEFAULT;
  dnn->present = (library || !name) && find_functions(dnn, library) &&
                 dnn->cudnnCreate(&dnn->handle) == CUDNN_STATUS_SUCCESS;
  if (dnn->present) DNN_CHECK(dnn, cudnnSetStream(dnn->handle, cuda->stream));
  cuda->dnn = dnn;
  return dnn;
}

/* ---- plans */

static void describe_window(struct dnn *dnn, struct dnn_plan *plan, enum dnn_pass pass) {
  const struct conv_shape *s = &plan->shape;
  cudnnConvolutionDescriptor_t *window = &plan->window[pass];
  DNN_CHECK(dnn, cudnnCreateConvolutionDescriptor(window));
  DNN_CHECK(dnn, cudnnSetConvolution2dDescriptor(*window, s->above, s->left, s->stride, s->stride,
                                                 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  DNN_CHECK(dnn,
            cudnnSetConvolutionMathType(*window, plan->tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH));
}

static void describe(struct dnn *dnn, struct dnn_plan *plan) {
  const struct conv_shape *s = &plan->shape;
  DNN_CHECK(dnn, cudnnCreateTensorDescriptor(&plan->x));
  DNN_CHECK(dnn, cudnnCreateTensorDescriptor(&plan->y));
  DNN_CHECK(dnn, cudnnCreateFilterDescriptor(&plan->w));
  DNN_CHECK(dnn, cudnnSetTensor4dDescriptor(plan->x, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, s->B,
                                            s->C, s->H, s->W));
  DNN_CHECK(dnn, cudnnSetTensor4dDescriptor(plan->y, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, s->B,
                                            s->O, s->h, s->w));
  DNN_CHECK(dnn, cudnnSetFilter4dDescriptor(plan->w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, s->O,
                                            s->C, s->size, s->size));
  for (int k = 0; k < DNN_PASSES; k++) describe_window(dnn, plan, (enum dnn_pass)k);
}

enum { DNN_ALGORITHMS = 16 };
static const size_t DNN_WORKSPACE_BYTES = (size_t)256 << 20;

/* An offer holds for its own arithmetic alone, which in float32 stays CUDNN_FMA_MATH. */
static bool is_offered(const struct dnn_plan *p, cudnnMathType_t math) {
  return p->tf32 || math == CUDNN_FMA_MATH || math == CUDNN_DEFAULT_MATH;
}

/* The first of what cuDNN offers, fastest first, that works and sums in a fixed order. */
template <typename F>
static bool choose(struct dnn *dnn, struct dnn_plan *p, enum dnn_pass pass, const F *offer,
                   int count, decltype(F::algo) *algorithm) {
  for (int i = 0; i < count; i++) {
    if (offer[i].status != CUDNN_STATUS_SUCCESS || offer[i].determinism != CUDNN_DETERMINISTIC ||
        offer[i].memory > DNN_WORKSPACE_BYTES || !is_offered(p, offer[i].mathType))
      continue;
    *algorithm = offer[i].algo;
    p->bytes[pass] = offer[i].memory;
    if (p->tf32) DNN_CHECK(dnn, cudnnSetConvolutionMathType(p->window[pass], offer[i].mathType));
    return true;
  }
  return false;
}

static bool choose_forward(struct dnn *dnn, struct dnn_plan *p) {
  cudnnConvolutionFwdAlgoPerf_t offer[DNN_ALGORITHMS];
  int count = 0;
  return dnn->cudnnGetConvolutionForwardAlgorithm_v7(dnn->handle, p->x, p->w,
                                                     p->window[DNN_FORWARD], p->y, DNN_ALGORITHMS,
                                                     &count, offer) == CUDNN_STATUS_SUCCESS &&
         choose(dnn, p, DNN_FORWARD, offer, count, &p->forward);
}

static bool choose_inputs(struct dnn *dnn, struct dnn_plan *p) {
  cudnnConvolutionBwdDataAlgoPerf_t offer[DNN_ALGORITHMS];
  int count = 0;
  return dnn->cudnnGetConvolutionBackwardDataAlgorithm_v7(
             dnn->handle, p->w, p->y, p->window[DNN_INPUTS], p->x, DNN_ALGORITHMS, &count, offer) ==
             CUDNN_STATUS_SUCCESS &&
         choose(dnn, p, DNN_INPUTS, offer, count, &p->inputs);
}

static bool choose_weights(struct dnn *dnn, struct dnn_plan *p) {
  cudnnConvolutionBwdFilterAlgoPerf_t offer[DNN_ALGORITHMS];
  int count = 0;
  return dnn->cudnnGetConvolutionBackwardFilterAlgorithm_v7(
             dnn->handle, p->x, p->y, p->window[DNN_WEIGHTS], p->w, DNN_ALGORITHMS, &count,
             offer) == CUDNN_STATUS_SUCCESS &&
         choose(dnn, p, DNN_WEIGHTS, offer, count, &p->weights);
}

static bool is_usable(struct dnn *dnn, struct dnn_plan *p, enum dnn_pass pass) {
  static bool (*const chooses[DNN_PASSES])(struct dnn *, struct dnn_plan *) = {
      choose_forward, choose_inputs, choose_weights};
  if (!p->asked[pass]) p->usable[pass] = chooses[pass](dnn, p);
  p->asked[pass] = true;
  return p->usable[pass];
}

/* The numbers alone: `low` is not set where cuDNN convolves. */
static bool is_same(const struct conv_shape *a, const struct conv_shape *b) {
  return memcmp(a, b, offsetof(struct conv_shape, low)) == 0;
}

static struct dnn_plan *plan_for(struct cuda *cuda, const struct conv_shape *s) {
  struct dnn *dnn = dnn_of(cuda);
  for (int i = 0; i < dnn->num_plans; i++)
    if (is_same(&dnn->plan[i].shape, s)) return &dnn->plan[i];
  if (dnn->num_plans == dnn->max_plans) {
    dnn->max_plans = dnn->max_plans ? 2 * dnn->max_plans : 32;
    dnn->plan = (struct dnn_plan *)realloc(dnn->plan, (size_t)dnn->max_plans * sizeof *dnn->plan);
    CHECK(dnn->plan, "no memory for %d plans of convolutions", dnn->max_plans);
  }
  struct dnn_plan *plan = &dnn->plan[dnn->num_plans++];
  memset(plan, 0, sizeof *plan);
  plan->shape = *s;
  plan->tf32 = cuda->tf32;
  describe(dnn, plan);
  return plan;
}

/* As many places as with the same number of zeros on both sides? */
static bool is_even(int length, int before, int places, int size, int stride) {
  return length + 2 * before >= size && (length + 2 * before - size) / stride + 1 == places;
}

static bool takes(struct cuda *cuda, const struct conv_shape *s) {
  return !cuda->bf16 && !cuda->without[CUDA_DNN] && !s->low &&
         is_even(s->H, s->above, s->h, s->size, s->stride) &&
         is_even(s->W, s->left, s->w, s->size, s->stride) && dnn_of(cuda)->present;
}

/* Whether a pass was computed. One that is refused at once is left to columns. */
static bool works(const struct dnn *dnn, struct dnn_plan *p, enum dnn_pass pass,
                  cudnnStatus_t status) {
  static bool warned;
  if (status == CUDNN_STATUS_SUCCESS) return p->worked[pass] = true;
  /* Version 9 has reasons of it in the lower digits. */
  bool refused =
      status == CUDNN_STATUS_NOT_SUPPORTED || status / 1000 * 1000 == CUDNN_STATUS_NOT_SUPPORTED;
  if (!refused || p->worked[pass])
    cuda_failed(__FILE__, __LINE__, "convolution", "cuDNN", dnn->cudnnGetErrorString(status));
  (void)cudaGetLastError();
  p->usable[pass] = false;
  cuda_warn_once(&warned,
                 "cuDNN refuses a convolution that it offered; Acorn's own kernels compute it");
  return false;
}

/* ---- weights */

static size_t weights_count(const struct conv_shape *s) {
  return (size_t)conv_places(s) * (size_t)s->C * (size_t)s->O;
}

static size_t weights_bytes(const struct conv_shape *s) {
  return (weights_count(s) * sizeof(float) + 255) / 256 * 256;
}

/* y (O, rows) = x (rows, O)^T. */
KERNEL outputs_first(float *y, const float *x, int rows, int O) {
  size_t count = (size_t)rows * O;
  for (size_t i = grid_first(); i < count; i += grid_step()) y[i] = x[i % rows * O + i / rows];
}

/* y (rows, O) = or += x (O, rows)^T. */
KERNEL outputs_last(float *y, const float *x, bool add, int rows, int O) {
  size_t count = (size_t)rows * O;
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    float value = x[i % O * rows + i / O];
    y[i] = add ? y[i] + value : value;
  }
}

static void *weights_in(struct cuda *cuda, void *room, const float *weights,
                        const struct conv_shape *s) {
  LAUNCH(outputs_first, blocks_for(weights_count(s)), BLOCK, cuda->stream, (float *)room, weights,
         conv_places(s) * s->C, s->O);
  return room;
}

/* ---- ReLU on what is read, which is a pass of its own here: into scratch memory, which then takes
 * the gradient on its way back. */

static size_t read_count(const struct conv_shape *s) {
  return (size_t)s->B * (size_t)s->H * (size_t)s->W * (size_t)s->C;
}

static size_t opened_bytes(const struct conv_shape *s, bool open) {
  return open ? (read_count(s) * sizeof(float) + 255) / 256 * 256 : 0;
}

KERNEL open_floats(float *y, const float *x, size_t n) {
  for (size_t i = grid_first(); i < n; i += grid_step()) y[i] = x[i] > 0 ? x[i] : 0;
}

KERNEL add_through(float *dx, const float *gradient, const float *x, size_t n) {
  for (size_t i = grid_first(); i < n; i += grid_step())
    if (x[i] > 0) dx[i] += gradient[i];
}

static const void *opened(struct cuda *cuda, void *room, const void *x,
                          const struct conv_shape *s) {
  LAUNCH(open_floats, blocks_for(read_count(s)), BLOCK, cuda->stream, (float *)room,
         (const float *)x, read_count(s));
  return room;
}

/* ---- forward */

/* y (pixels, O) = act(y + b) + residual. */
KERNEL finish(float *y, const float *b, const float *residual, bool relu, size_t count, int O) {
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    float value = y[i] + b[i % O];
    if (relu) value = value > 0 ? value : 0;
    y[i] = residual ? value + residual[i] : value;
  }
}

bool conv_dnn_forward(struct cuda *cuda, const struct conv_forward *f) {
  const struct conv_shape *s = &f->shape;
  if (!takes(cuda, s)) return false;
  struct dnn *dnn = dnn_of(cuda);
  struct dnn_plan *p = plan_for(cuda, s);
  if (!is_usable(dnn, p, DNN_FORWARD)) return false;
  size_t weights = weights_bytes(s), seen = opened_bytes(s, f->open);
  char *room = (char *)cuda_scratch(cuda, weights + seen + p->bytes[DNN_FORWARD]);
  const void *x = f->open ? opened(cuda, room + weights, f->x, s) : f->x;
  float one = 1, zero = 0, *y = (float *)f->y;
  if (!works(dnn, p, DNN_FORWARD,
             dnn->cudnnConvolutionForward(dnn->handle, &one, p->x, x, p->w,
                                          weights_in(cuda, room, f->weights, s),
                                          p->window[DNN_FORWARD], p->forward, room + weights + seen,
                                          p->bytes[DNN_FORWARD], &zero, p->y, y)))
    return false;
  size_t count = conv_pixels_written(s) * (size_t)s->O;
  LAUNCH(finish, blocks_for(count), BLOCK, cuda->stream, y, f->b, (const float *)f->residual,
         f->act == ACTIVATION_RELU, count, s->O);
  return true;
}

/* ---- backward */

static struct columns bias_gradient(const struct conv_backward *b) {
  struct columns c = {};
  c.dy = (float *)b->dy;
  c.y = (const float *)b->y;
  c.sum = b->db;
  c.act = b->act;
  c.add = b->add;
  c.rows = conv_pixels_written(&b->shape);
  c.O = b->shape.O;
  return c;
}

/* Scratch memory of a backward pass. */
struct backward_room {
  void *sums;
  float *weights;       /* or their gradient, outputs first */
  void *through, *work; /* through: of `open` */
};

static struct backward_room room_for(struct cuda *cuda, const struct conv_backward *b,
                                     const struct dnn_plan *p, size_t sums) {
  size_t weights = weights_bytes(&b->shape), seen = opened_bytes(&b->shape, b->open),
         for_weights = p->bytes[DNN_WEIGHTS], for_inputs = p->bytes[DNN_INPUTS],
         work = for_weights > for_inputs ? for_weights : for_inputs;
  char *room = (char *)cuda_scratch(cuda, sums + weights + seen + work);
  return {room, (float *)(room + sums), room + sums + weights, room + sums + weights + seen};
}

static bool gradient_of_weights(struct dnn *dnn, struct dnn_plan *p, const struct conv_backward *b,
                                const struct backward_room *room) {
  float one = 1, zero = 0;
  return works(dnn, p, DNN_WEIGHTS,
               dnn->cudnnConvolutionBackwardFilter(
                   dnn->handle, &one, p->x, b->open ? room->through : b->x, p->y, b->dy,
                   p->window[DNN_WEIGHTS], p->weights, room->work, p->bytes[DNN_WEIGHTS], &zero,
                   p->w, room->weights));
}

static bool gradient_of_inputs(struct dnn *dnn, struct dnn_plan *p, const struct conv_backward *b,
                               const struct backward_room *room) {
  float one = 1, zero = 0;
  return works(dnn, p, DNN_INPUTS,
               dnn->cudnnConvolutionBackwardData(dnn->handle, &one, p->w, room->weights, p->y,
                                                 b->dy, p->window[DNN_INPUTS], p->inputs,
                                                 room->work, p->bytes[DNN_INPUTS], &zero, p->x,
                                                 b->open ? room->through : b->dx));
}

/* Tries the passes that have not worked yet; one that is refused leaves all of it to columns, so
 * nothing but scratch memory, and dx where it is not added to, may have changed before. */
static bool try_backward(struct dnn *dnn, struct dnn_plan *p, const struct conv_backward *b,
                         const struct backward_room *room) {
  return (p->worked[DNN_WEIGHTS] || gradient_of_weights(dnn, p, b, room)) &&
         (!b->dx || p->worked[DNN_INPUTS] || gradient_of_inputs(dnn, p, b, room));
}

bool conv_dnn_backward(struct cuda *cuda, const struct conv_backward *b) {
  const struct conv_shape *s = &b->shape;
  if (!takes(cuda, s)) return false;
  struct dnn *dnn = dnn_of(cuda);
  struct dnn_plan *p = plan_for(cuda, s);
  if (!is_usable(dnn, p, DNN_WEIGHTS) || (b->dx && !is_usable(dnn, p, DNN_INPUTS))) return false;
  struct columns columns = bias_gradient(b);
  struct backward_room room = room_for(cuda, b, p, columns_bytes(cuda, &columns));
  if (!try_backward(dnn, p, b, &room)) return false;
  if (b->open) opened(cuda, room.through, b->x, s);
  cuda_turn_columns(cuda, &columns, room.sums);
  gradient_of_weights(dnn, p, b, &room);
  LAUNCH(outputs_last, blocks_for(weights_count(s)), BLOCK, cuda->stream, b->dw,
         (const float *)room.weights, b->add, conv_places(s) * s->C, s->O);
  if (!b->dx) return true;
  weights_in(cuda, room.weights, b->weights, s);
  gradient_of_inputs(dnn, p, b, &room);
  if (b->open)
    LAUNCH(add_through, blocks_for(read_count(s)), BLOCK, cuda->stream, (float *)b->dx,
           (const float *)room.through, (const float *)b->x, read_count(s));
  return true;
}

void conv_dnn_destroy(struct cuda *cuda) {
  struct dnn *dnn = (struct dnn *)cuda->dnn;
  if (!dnn) return;
  for (int i = 0; i < dnn->num_plans; i++) {
    struct dnn_plan *p = &dnn->plan[i];
    DNN_CHECK(dnn, cudnnDestroyTensorDescriptor(p->x));
    DNN_CHECK(dnn, cudnnDestroyTensorDescriptor(p->y));
    DNN_CHECK(dnn, cudnnDestroyFilterDescriptor(p->w));
    for (int k = 0; k < DNN_PASSES; k++)
      DNN_CHECK(dnn, cudnnDestroyConvolutionDescriptor(p->window[k]));
  }
  if (dnn->present) DNN_CHECK(dnn, cudnnDestroy(dnn->handle));
  free(dnn->plan);
  free(dnn);
  cuda->dnn = NULL;
}
