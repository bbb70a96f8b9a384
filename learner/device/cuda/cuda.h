/* The CUDA device: what the files of the plugin share, and the operations of device.h that it has.
 * Kernel files come to it; cuda.cu makes the table. C++17 that reads like C; rules of a kernel:
 * everything on the device's own stream, no synchronisation, no allocation once it runs, no reads
 * of device memory by the host, arguments by value, launch geometry from sizes alone (so that a
 * launch can be captured in a graph), sums in a fixed order.
 * Upstream: the .cu files beside it. Thread: as device.h says. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_CUDA_H
#define ACORN_LEARNER_DEVICE_CUDA_CUDA_H

#define _Noreturn [[noreturn]]
extern "C" {
#include "common/base/check.h"
#include "learner/device/create.h"
#include "learner/device/device.h"
}
#undef _Noreturn

#include <pthread.h>
#include <stdlib.h>

#include "learner/device/cuda/portable.h"

/* What ACORN_CUDA_WITHOUT=WAY,... in the environment leaves out, so that a failure on a GPU can be
 * bisected without building: cuDNN, cuBLAS, the kernel for all steps of an LSTM, the waits of its
 * blocks for each other, recordings, bf16's convolutions in shared memory, and sums of several
 * learners by NCCL. Each has another way that does its work. */
enum cuda_way {
  CUDA_DNN,
  CUDA_BLAS,
  CUDA_TOGETHER,
  CUDA_WAITS,
  CUDA_GRAPHS,
  CUDA_TILES,
  CUDA_NCCL,
  CUDA_WAYS
};

enum { CUDA_MARKS = 64, CUDA_MAX_SCRATCH = 32, CUDA_DESCRIPTION_BYTES = 128 };

struct cuda {
  struct device device;
  int gpu;
  cudaStream_t stream;
  struct cudaDeviceProp properties;
  char description[CUDA_DESCRIPTION_BYTES];

  /* marks: mark k is mark_event[k % CUDA_MARKS]; a later mark in its place is done later too. */
  uint64_t marks; /* so far; owner thread only */
  cudaEvent_t mark_event[CUDA_MARKS];
  bool is_recording;              /* the stream is captured, */
  struct device_traffic recorded; /* with these transfers so far */

  /* The last one is in use; the others belong to graphs that were captured before it grew. */
  struct {
    void *memory;
    size_t bytes;
  } scratch[CUDA_MAX_SCRATCH];
  int num_scratch;

  struct small_chain *chain; /* small layers that wait for the next one; NULL: there never were */
  unsigned *arrived;         /* device memory, 0 between kernels: for is_last_block */

  /* Of the files that use cuBLAS and cuDNN: NULL until they do, freed by cuda_linear_destroy and
   * cuda_conv_destroy. */
  void *blas, *dnn;
  struct group *group; /* of group.cu; NULL: it has not looked for NCCL */
  bool bf16, tf32;     /* precision of products and convolutions; with bf16 pixels are bf16 too */
  bool without[CUDA_WAYS];
};

/* The device, and its GPU as the calling thread's current one: the first line of an operation.
 * Launches the small layers that waited. */
struct cuda *cuda_of(struct device *d);
/* The same, but small layers go on waiting. Thread: any. */
struct cuda *cuda_of_waiting(struct device *d);

/* A library of CUDA that the plugin is not linked with, as dlopen; NULL: it is nowhere. */
void *cuda_library(const char *name);
/* A line in the program's log, the first time that *warned is false. */
void cuda_warn_once(bool *warned, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Scratch memory of the operation that is being launched: valid until the next call, so called once
 * in an operation. Not zeroed, 256-byte aligned. CHECKs that it need not grow while the stream is
 * captured. */
void *cuda_scratch(struct cuda *cuda, size_t bytes);

/* By plugin.cu, which has checked that there is such a GPU. */
enum status cuda_create(struct device **out, const struct device_options *options,
                        struct error *error);

/* Of an activation, where its output is y. */
DEVICE float slope(enum activation act, float y) {
  if (act == ACTIVATION_RELU) return y > 0 ? 1.0f : 0.0f;
  return act == ACTIVATION_TANH ? 1 - y * y : 1;
}

/* ---- the operations, as in device.h */

void cuda_copy_rows(struct device *d, real *y, int y_stride, const real *x, int x_stride, int B,
                    int n);

/* rows.cu */
void cuda_gather_rows(struct device *d, void *y, const void *x, const int32_t *row, int B,
                      size_t bytes);
void cuda_scatter_rows(struct device *d, void *y, const void *x, const int32_t *row, int B,
                       size_t bytes);

/* steps.cu */
void cuda_scatter_steps(struct device *d, const struct device_pool *pool, const int32_t *row,
                        const struct device_steps *steps, int B);
void cuda_gather_steps(struct device *d, const struct device_steps *steps, int N, int column,
                       const struct device_pool *pool, const struct device_unroll *unroll,
                       int count, int length, int footprint);

/* inputs.cu */
void cuda_embed(struct device *d, real *y, const struct device_inputs *in, int B);
void cuda_image(struct device *d, pixel *y, const struct device_inputs *in, int B);

/* linear.cu */
void cuda_linear_forward(struct device *d, real *y, const real *x, int x_stride, const real *w,
                         const real *b, enum activation act, int B, int I, int O);
void cuda_linear_backward(struct device *d, real *dx, real *dw, real *db, real *dy, const real *y,
                          const real *x, int x_stride, const real *w, enum activation act, int B,
                          int I, int O);
void cuda_linear_pixels_forward(struct device *d, real *y, const pixel *x, const real *w,
                                const real *b, enum activation act, int B, int I, int O);
void cuda_linear_pixels_backward(struct device *d, pixel *dx, real *dw, real *db, real *dy,
                                 const real *y, const pixel *x, const real *w, enum activation act,
                                 int B, int I, int O);
void cuda_weights_changed(struct device *d);
void cuda_linear_destroy(struct cuda *cuda);

/* conv.cu */
void cuda_conv_forward(struct device *d, pixel *y, const pixel *x, const real *weights,
                       const real *b, const pixel *residual, enum activation act, bool open,
                       const struct device_window *window, int B);
void cuda_conv_backward(struct device *d, pixel *dx, real *dw, real *db, pixel *dy, const pixel *y,
                        const pixel *x, const real *weights, enum activation act, bool open,
                        const struct device_window *window, int B, bool add);
void cuda_conv_destroy(struct cuda *cuda);

void cuda_conv_pool_backward(struct device *d, pixel *dx, real *dw, real *db, pixel *between,
                             const pixel *dy, const uint8_t *choice, const pixel *x,
                             const real *weights, const struct device_window *window,
                             const struct device_window *pool, int B, bool add);
/* pixels.cu */
void cuda_pool_forward(struct device *d, pixel *y, uint8_t *choice, const pixel *x,
                       const struct device_window *window, int B);
void cuda_pool_backward(struct device *d, pixel *dx, const pixel *dy, const uint8_t *choice,
                        const struct device_window *window, int B);
void cuda_relu(struct device *d, pixel *y, const pixel *x, size_t n);
void cuda_relu_backward(struct device *d, pixel *dx, const pixel *dy, const pixel *y, size_t n);

/* group.cu: sums of several learners */
extern const struct device_group_ops cuda_group;
void cuda_group_destroy(struct cuda *cuda);

/* lstm.cu */
void cuda_lstm_forward(struct device *d, real *h, real *c, real *gates, const real *wh,
                       const real *h0, const real *c0, const uint8_t *reset, int T, int N, int H);
void cuda_lstm_backward(struct device *d, real *dgates, real *dwh, real *dh, const real *h,
                        const real *c, const real *gates, const real *wh, const real *h0,
                        const real *c0, const uint8_t *reset, int T, int N, int H);

/* random.cu */
void cuda_random_uniforms(struct device *d, float *uniform, uint64_t seed,
                          const struct device_draws *draws, enum random_purpose purpose, int B);

/* trace.cu */
void cuda_trace(struct device *d, real *vs, real *advantage, const struct device_trace *v);

/* n_step.cu */
void cuda_n_step(struct device *d, real *returned, real *discounts, int32_t *from,
                 const struct device_n_step *n);

/* rules.cu */
void cuda_run_rule(struct device *d, enum rule which, const struct rule_run *rule);

/* noise.cu */
void cuda_factor_noise(struct device *d, real *noise, uint64_t seed, uint32_t stream,
                       uint32_t first, int n);
void cuda_noisy_forward(struct device *d, real *y, const real *mean, const real *deviation,
                        const real *in, const real *out, int I, int O);
void cuda_noisy_backward(struct device *d, real *d_deviation, const real *dy, const real *in,
                         const real *out, int I, int O);

/* optimiser.cu */
void cuda_global_norm(struct device *d, real *norm, const real *g, size_t P);
void cuda_require_finite(struct device *d, real *norm, const real *x, size_t n, real *failed);
void cuda_adam(struct device *d, real *p, real *m, real *v, const real *g, const real *norm,
               const struct device_schedule *schedule, float max_norm, float beta1, float beta2,
               float epsilon, bool epsilon_hat, size_t P);
void cuda_rmsprop(struct device *d, real *p, real *ms, real *mom, const real *g, const real *norm,
                  const struct device_schedule *schedule, float max_norm, float decay,
                  float momentum, float epsilon, size_t P);

#endif
