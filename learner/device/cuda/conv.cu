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
  s.size = s.across = window->size;
  s.stride = s.step = window->stride;
  s.h = device_window_rows(window);
  s.w = device_window_columns(window);
  s.above = device_window_before(window, window->H);
  s.left = device_window_before(window, window->W);
  s.B = B;
  s.low = cuda->bf16;
  return s;
}

/* Tiles read 8 channels together. An image of 4, as a stack of frames is, goes as one of half as
 * many columns whose pixels are pairs, where windows begin and end with a pair: neither it nor the
 * weights change their order in memory. */
static struct conv_shape shape_in_pairs(const struct conv_shape *shape) {
  struct conv_shape s = *shape;
  if (s.C != 4 || s.W % 2 || s.across % 2 || s.step % 2 || s.left % 2) return s;
  s.C = 8;
  s.W /= 2;
  s.across /= 2;
  s.step /= 2;
  s.left /= 2;
  return s;
}

/* Both passes or none, so that x is rounded alike. */
static bool tiles_take(const struct cuda *cuda, const struct conv_shape *shape) {
  struct conv_shape pairs = shape_in_pairs(shape);
  return !cuda->without[CUDA_TILES] && conv_tiles_forward_take(cuda, &pairs) &&
         conv_tiles_weights_take(cuda, &pairs);
}

void cuda_conv_forward(struct device *d, pixel *y, const pixel *x, const real *weights,
                       const real *b, const pixel *residual, enum activation act, bool open,
                       const struct device_window *window, int B) {
  CHECK(act != ACTIVATION_TANH && !(act && residual), "a convolution with activation %d", act);
  struct cuda *cuda = cuda_of(d);
  struct conv_forward f = {shape_of(cuda, window, B), y,   x,   residual, (const float *)weights,
                           (const float *)b,          act, open};
  if (tiles_take(cuda, &f.shape)) {
    f.shape = shape_in_pairs(&f.shape);
    conv_tiles_forward(cuda, &f);
  } else if (!conv_dnn_forward(cuda, &f)) {
    conv_columns_forward(cuda, &f);
  }
}

/* The gradient of the weights first: it takes dy through the activation. */
static void tiles_backward(struct cuda *cuda, const struct conv_backward *b) {
  struct conv_backward weights = *b;
  weights.shape = shape_in_pairs(&b->shape);
  conv_tiles_weights(cuda, &weights);
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
  else if (!conv_dnn_backward(cuda, &b))
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
