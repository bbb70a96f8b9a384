/* Convolutions: conv_forward, conv_backward, each by the fastest way that takes the window. */
#include "learner/device/cuda/conv.h"

#include "learner/device/cuda/pixels.h"

static struct conv_shape shape_of(const struct device_window *window, int B, bool low) {
  struct conv_shape s = {};
  s.H = window->H;
  s.W = window->W;
  s.C = window->C;
  s.O = window->O;
  s.size = window->size;
  s.stride = window->stride;
  s.h = device_window_rows(window);
  s.w = device_window_columns(window);
  s.above = device_window_before(window, window->H);
  s.left = device_window_before(window, window->W);
  s.B = B;
  s.low = low;
  return s;
}

/* Both passes or none, so that x is rounded alike. */
static bool tiles_take(const struct cuda *cuda, const struct conv_shape *shape) {
  return conv_tiles_forward_take(cuda, shape) && conv_tiles_weights_take(cuda, shape);
}

/* ---- forward */

static void forward(struct device *d, struct conv_forward f, const real *weights, const real *b) {
  CHECK(f.act != ACTIVATION_TANH && !(f.act && f.residual), "a convolution with activation %d",
        f.act);
  struct cuda *cuda = cuda_of(d);
  f.weights = (const float *)weights;
  f.b = (const float *)b;
  if (tiles_take(cuda, &f.shape))
    conv_tiles_forward(cuda, &f);
  else if (conv_dnn_takes(cuda, &f.shape))
    conv_dnn_forward(cuda, &f);
  else
    conv_columns_forward(cuda, &f);
}

void cuda_conv_forward(struct device *d, real *y, const real *x, const real *weights, const real *b,
                       const real *residual, enum activation act,
                       const struct device_window *window, int B) {
  struct conv_forward f = {shape_of(window, B, false), y, x, residual, NULL, NULL, act};
  forward(d, f, weights, b);
}

void cuda_conv_forward_bf16(struct device *d, bf16 *y, const bf16 *x, const real *weights,
                            const real *b, const bf16 *residual, enum activation act,
                            const struct device_window *window, int B) {
  struct conv_forward f = {shape_of(window, B, true), y, x, residual, NULL, NULL, act};
  forward(d, f, weights, b);
}

/* ---- backward */

/* The gradient of the weights first: it takes dy through the activation. */
static void tiles_backward(struct cuda *cuda, const struct conv_backward *b) {
  conv_tiles_weights(cuda, b);
  if (!b->dx) return;
  if (conv_tiles_inputs_take(cuda, &b->shape))
    conv_tiles_inputs(cuda, b);
  else
    conv_columns_inputs(cuda, b);
}

static void backward(struct device *d, struct conv_backward b, real *dw, real *db,
                     const real *weights) {
  struct cuda *cuda = cuda_of(d);
  b.dw = (float *)dw;
  b.db = (float *)db;
  b.weights = (const float *)weights;
  if (tiles_take(cuda, &b.shape))
    tiles_backward(cuda, &b);
  else if (conv_dnn_takes(cuda, &b.shape))
    conv_dnn_backward(cuda, &b);
  else
    conv_columns_backward(cuda, &b);
}

void cuda_conv_backward(struct device *d, real *dx, real *dw, real *db, real *dy, const real *y,
                        const real *x, const real *weights, enum activation act,
                        const struct device_window *window, int B, bool add) {
  struct conv_backward b = {shape_of(window, B, false), dx, dy, y, x, NULL, NULL, NULL, act, add};
  backward(d, b, dw, db, weights);
}

void cuda_conv_backward_bf16(struct device *d, bf16 *dx, real *dw, real *db, bf16 *dy,
                             const bf16 *y, const bf16 *x, const real *weights, enum activation act,
                             const struct device_window *window, int B, bool add) {
  struct conv_backward b = {shape_of(window, B, true), dx, dy, y, x, NULL, NULL, NULL, act, add};
  backward(d, b, dw, db, weights);
}

void cuda_conv_destroy(struct cuda *cuda) {
  conv_dnn_destroy(cuda);
}
