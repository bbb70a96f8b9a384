/* Convolutions: conv_forward, conv_backward, each by the fastest way that takes the window. */
#include "learner/device/cuda/conv.h"

struct conv_shape conv_shape_of(const struct cuda *cuda, const struct device_window *window,
                                int B) {
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
  s.low = cuda->low_pixels;
  return s;
}

/* Both passes or none, so that x is rounded alike. */
static bool tiles_take(const struct cuda *cuda, const struct conv_shape *shape) {
  return conv_tiles_forward_take(cuda, shape) && conv_tiles_weights_take(cuda, shape);
}

void cuda_conv_forward(struct device *d, real *y, const real *x, const real *weights, const real *b,
                       const real *residual, enum activation act,
                       const struct device_window *window, int B) {
  CHECK(act != ACTIVATION_TANH && !(act && residual), "a convolution with activation %d", act);
  struct cuda *cuda = cuda_of(d);
  struct conv_forward f = {};
  f.shape = conv_shape_of(cuda, window, B);
  f.y = y;
  f.x = x;
  f.weights = (const float *)weights;
  f.b = (const float *)b;
  f.residual = residual;
  f.act = act;
  if (tiles_take(cuda, &f.shape))
    conv_tiles_forward(cuda, &f);
  else if (conv_dnn_takes(cuda, &f.shape))
    conv_dnn_forward(cuda, &f);
  else
    conv_columns_forward(cuda, &f);
}

/* The gradient of the weights first: it takes dy through the activation. */
static void tiles_backward(struct cuda *cuda, const struct conv_backward *b) {
  conv_tiles_weights(cuda, b);
  if (!b->dx) return;
  if (conv_tiles_inputs_take(cuda, &b->shape))
    conv_tiles_inputs(cuda, b);
  else
    conv_columns_inputs(cuda, b);
}

void cuda_conv_backward(struct device *d, real *dx, real *dw, real *db, real *dy, const real *y,
                        const real *x, const real *weights, enum activation act,
                        const struct device_window *window, int B, bool add) {
  struct cuda *cuda = cuda_of(d);
  struct conv_backward b = {};
  b.shape = conv_shape_of(cuda, window, B);
  b.dx = dx;
  b.dw = (float *)dw;
  b.db = (float *)db;
  b.dy = dy;
  b.y = y;
  b.x = x;
  b.weights = (const float *)weights;
  b.act = act;
  b.add = add;
  if (tiles_take(cuda, &b.shape))
    tiles_backward(cuda, &b);
  else if (conv_dnn_takes(cuda, &b.shape))
    conv_dnn_backward(cuda, &b);
  else
    conv_columns_backward(cuda, &b);
}

void cuda_conv_destroy(struct cuda *cuda) {
  conv_dnn_destroy(cuda);
}
