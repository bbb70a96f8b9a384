/* What the ways of a convolution share. Upstream: conv.cu, which chooses one; conv_columns.cu,
 * conv_tiles.cu, conv_tiles_back.cu, conv_dnn.cu. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_CONV_H
#define ACORN_LEARNER_DEVICE_CUDA_CONV_H

#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/wide.h"

/* A window with what follows from it: the image that is written is (h, w), `above` and `left` are
 * the zeros before the image that is read. Rows have size and stride; columns `across` and `step`,
 * which are others only where conv.cu takes pixels in pairs. */
struct conv_shape {
  int H, W, C, O, size, stride, across, step;
  int h, w, above, left;
  int B;
  bool low; /* images, x, y and their gradients, are bf16; weights and biases always float */
};

/* Pooling of what the convolution wrote. */
struct conv_pool {
  const uint8_t *choice; /* (B, rows, columns, O); NULL: there is none */
  int rows, columns, size, stride, above, left;
  struct divisor by_stride;
};

/* Arguments as in device.h, of one pass. */
struct conv_forward {
  struct conv_shape shape;
  void *y;
  const void *x, *residual;
  const float *weights, *b;
  enum activation act;
  bool open;
};

struct conv_backward {
  struct conv_shape shape;
  void *dx, *dy; /* dx: NULL or (B, H, W, C) */
  const void *y, *x;
  float *dw, *db;
  const float *weights;
  enum activation act;
  bool open, add;
  struct conv_pool pool; /* dy is of what it wrote. By tiles only */
};

static inline int conv_places(const struct conv_shape *s) {
  return s->size * s->across;
}

static inline size_t conv_pixels_written(const struct conv_shape *s) {
  return (size_t)s->B * (size_t)s->h * (size_t)s->w;
}

/* conv_columns.cu: any window, any precision. Each pixel's window becomes a row of a matrix. */
void conv_columns_forward(struct cuda *cuda, const struct conv_forward *f);
void conv_columns_backward(struct cuda *cuda, const struct conv_backward *b);
/* dx alone, of a gradient that came through the activation already. */
void conv_columns_inputs(struct cuda *cuda, const struct conv_backward *b);

/* conv_tiles.cu, conv_tiles_back.cu: bf16, few channels; the matrix is made in shared memory. */
bool conv_tiles_forward_take(const struct cuda *cuda, const struct conv_shape *shape);
bool conv_tiles_weights_take(const struct cuda *cuda, const struct conv_shape *shape);
bool conv_tiles_inputs_take(const struct cuda *cuda, const struct conv_shape *shape);
void conv_tiles_forward(struct cuda *cuda, const struct conv_forward *f);
/* dw and db; takes dy through the activation. */
void conv_tiles_weights(struct cuda *cuda, const struct conv_backward *b);
/* dx, of a gradient that came through the activation already. */
void conv_tiles_inputs(struct cuda *cuda, const struct conv_backward *b);

/* conv_dnn.cu: float and tf32 by cuDNN, where it is present and knows the window; else false, and
 * nothing is done. */
bool conv_dnn_forward(struct cuda *cuda, const struct conv_forward *f);
bool conv_dnn_backward(struct cuda *cuda, const struct conv_backward *b);
void conv_dnn_destroy(struct cuda *cuda);

#endif
