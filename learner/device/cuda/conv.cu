/* Convolutions: conv_forward, conv_backward, each by the fastest way that takes the window. */
#include "learner/device/cuda/conv.h"

extern "C" {
#include "learner/device/plain_pixels.h"
}

static struct conv_shape shape_of(const struct cuda *cuda, const struct device_window *window,
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
  s.low = cuda->bf16;
  return s;
}

/* Both passes or none, so that x is rounded alike. */
static bool tiles_take(const struct cuda *cuda, const struct conv_shape *shape) {
  return !cuda->without[CUDA_TILES] && conv_tiles_forward_take(cuda, shape) &&
         conv_tiles_weights_take(cuda, shape);
}

void cuda_conv_forward(struct device *d, pixel *y, const pixel *x, const real *weights,
                       const real *b, const pixel *residual, enum activation act, bool open,
                       const struct device_window *window, int B) {
  CHECK(act != ACTIVATION_TANH && !(act && residual), "a convolution with activation %d", act);
  struct cuda *cuda = cuda_of(d);
  struct conv_forward f = {shape_of(cuda, window, B), y,   x,   residual, (const float *)weights,
                           (const float *)b,          act, open};
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

void cuda_conv_backward(struct device *d, pixel *dx, real *dw, real *db, pixel *dy, const pixel *y,
                        const pixel *x, const real *weights, enum activation act, bool open,
                        const struct device_window *window, int B, bool add) {
  struct cuda *cuda = cuda_of(d);
  struct conv_backward b = {shape_of(cuda, window, B), dx,  dy,   y,   x, (float *)dw, (float *)db,
                            (const float *)weights,    act, open, add, {}};
  if (tiles_take(cuda, &b.shape))
    tiles_backward(cuda, &b);
  else if (conv_dnn_takes(cuda, &b.shape))
    conv_dnn_backward(cuda, &b);
  else
    conv_columns_backward(cuda, &b);
}

/* The gradient of what the convolution wrote is made where a kernel reads it, and never stored: 6
 * bytes less for each of its numbers, which pool_backward would write and two kernels read (4
 * without dx). */
void cuda_conv_pool_backward(struct device *d, pixel *dx, real *dw, real *db, pixel *between,
                             const pixel *dy, const uint8_t *choice, const pixel *x,
                             const real *weights, const struct device_window *window,
                             const struct device_window *pool, int B, bool add) {
  struct cuda *cuda = cuda_of(d);
  struct conv_backward b = {shape_of(cuda, window, B),
                            dx,
                            (void *)dy, /* not written without an activation */
                            NULL,
                            x,
                            (float *)dw,
                            (float *)db,
                            (const float *)weights,
                            ACTIVATION_NONE,
                            false,
                            add,
                            {}};
  if (!tiles_take(cuda, &b.shape) || (dx && !conv_tiles_inputs_take(cuda, &b.shape))) {
    plain_conv_pool_backward(d, dx, dw, db, between, dy, choice, x, weights, window, pool, B, add);
    return;
  }
  b.pool = {choice,
            device_window_rows(pool),
            device_window_columns(pool),
            pool->size,
            pool->stride,
            device_window_before(pool, pool->H),
            device_window_before(pool, pool->W),
            divisor_of(pool->stride)};
  tiles_backward(cuda, &b);
}

void cuda_conv_destroy(struct cuda *cuda) {
  conv_dnn_destroy(cuda);
}
