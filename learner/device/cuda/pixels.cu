/* Pixels, float or bf16: pooling and relu. Memory bounds all kernels.
 * A thread works on V channels of a pixel, 16 bytes where they allow it. */
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/pooling.h"
#include "learner/device/cuda/wide.h"

/* ---- pooling */

/* A window, and what device.h computes of it. C in packs of V channels. */
struct pool_shape {
  int H, W, size, stride;
  int rows, columns, above, left;
  unsigned packs;
  int B;
  struct divisor by_stride, by_packs;
};

static struct pool_shape shape_of(const struct device_window *v, int B, int V) {
  return {v->H,
          v->W,
          v->size,
          v->stride,
          device_window_rows(v),
          device_window_columns(v),
          device_window_before(v, v->H),
          device_window_before(v, v->W),
          (unsigned)(v->C / V),
          B,
          divisor_of(v->stride),
          divisor_of(v->C / V)};
}

/* The pack with number i of images whose sides are divisors. */
struct pack_place {
  size_t b;
  int row, column, pack;
};

DEVICE struct pack_place place_of(size_t i, const struct divisor &h, const struct divisor &w,
                                  const struct divisor &packs) {
  struct quotient point = divide(i, packs);
  struct quotient line = divide(point.whole, w);
  struct quotient image = divide(line.whole, h);
  return {image.whole, (int)image.rest, (int)line.rest, (int)point.rest};
}

/* The largest of each window so far, and where it is. A NaN is taken, and the next number after
 * it. */
template <int V>
struct largest {
  float value[V];
  pack<uint8_t, V> place;
};

template <typename P, int V>
DEVICE void take_larger(struct largest<V> &largest, const pack<P, V> &x, int place) {
  UNROLL
  for (int k = 0; k < V; k++) {
    float value = to_float(x.at[k]);
    if (value <= largest.value[k]) continue;
    largest.value[k] = value;
    largest.place.at[k] = (uint8_t)place;
  }
}

/* SIZE: s.size, or 0 for any. */
template <typename P, int V, int SIZE>
KERNEL pool_forward(P *__restrict__ y, uint8_t *__restrict__ choice, const P *__restrict__ x,
                    PARAMETER struct pool_shape s, struct divisor rows, struct divisor columns,
                    size_t count) {
  const int size = SIZE ? SIZE : s.size;
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    struct pack_place at = place_of(i, rows, columns, s.by_packs);
    int top = at.row * s.stride - s.above, left = at.column * s.stride - s.left;
    const P *image = x + at.b * (size_t)s.H * (size_t)s.W * s.packs * V + (size_t)at.pack * V;
    struct largest<V> largest;
    for (int k = 0; k < V; k++) largest.value[k] = -INFINITY, largest.place.at[k] = 0;
    UNROLL
    for (int r = 0; r < size; r++) UNROLL
    for (int c = 0; c < size; c++) {
      int row = top + r, column = left + c;
      if (row < 0 || row >= s.H || column < 0 || column >= s.W) continue;
      size_t from = (size_t)row * (size_t)s.W + (size_t)column;
      take_larger<P, V>(largest, load_pack<P, V>(image + from * s.packs * V), r * size + c);
    }
    pack<P, V> values;
    for (int k = 0; k < V; k++) values.at[k] = from_float<P>(largest.value[k]);
    store_pack(y + i * V, values);
    store_pack(choice + i * V, largest.place);
  }
}

/* Each pixel gathers from the windows that reach it, in their order: no zeros to write first, and
 * the same sum in every run. */
template <typename P, int V>
KERNEL pool_backward(P *__restrict__ dx, const P *__restrict__ dy,
                     const uint8_t *__restrict__ choice, PARAMETER struct pool_shape s,
                     struct divisor H, struct divisor W, size_t count) {
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    struct pack_place at = place_of(i, H, W, s.by_packs);
    int top = first_window(at.row, s.above, s.size, s.by_stride),
        bottom = last_window(at.row, s.above, s.by_stride, s.rows),
        left = first_window(at.column, s.left, s.size, s.by_stride),
        right = last_window(at.column, s.left, s.by_stride, s.columns);
    size_t image = at.b * (size_t)s.rows * (size_t)s.columns;
    float sum[V] = {};
    for (int row = top; row <= bottom; row++)
      for (int column = left; column <= right; column++) {
        size_t window = image + (size_t)row * (size_t)s.columns + (size_t)column,
               from = (window * s.packs + (unsigned)at.pack) * V;
        int place =
            (at.row + s.above - row * s.stride) * s.size + at.column + s.left - column * s.stride;
        pack<P, V> gradient = load_pack<P, V>(dy + from);
        pack<uint8_t, V> chosen = load_pack<uint8_t, V>(choice + from);
        UNROLL
        for (int k = 0; k < V; k++)
          if (chosen.at[k] == place) sum[k] += to_float(gradient.at[k]);
      }
    pack<P, V> result;
    for (int k = 0; k < V; k++) result.at[k] = from_float<P>(sum[k]);
    store_pack(dx + i * V, result);
  }
}

template <typename P, int V>
static void launch_pool_forward(struct cuda *cuda, P *y, uint8_t *choice, const P *x,
                                const struct device_window *window, int B) {
  struct pool_shape s = shape_of(window, B, V);
  size_t count = (size_t)B * (size_t)s.rows * (size_t)s.columns * s.packs;
  if (count == 0) return;
  unsigned blocks = blocks_for(count, BLOCK, UINT32_MAX / 2);
  if (s.size == 3)
    LAUNCH((pool_forward<P, V, 3>), blocks, BLOCK, cuda->stream, y, choice, x, s,
           divisor_of(s.rows), divisor_of(s.columns), count);
  else
    LAUNCH((pool_forward<P, V, 0>), blocks, BLOCK, cuda->stream, y, choice, x, s,
           divisor_of(s.rows), divisor_of(s.columns), count);
}

template <typename P, int V>
static void launch_pool_backward(struct cuda *cuda, P *dx, const P *dy, const uint8_t *choice,
                                 const struct device_window *window, int B) {
  struct pool_shape s = shape_of(window, B, V);
  size_t count = (size_t)B * (size_t)s.H * (size_t)s.W * s.packs;
  if (count == 0) return;
  LAUNCH((pool_backward<P, V>), blocks_for(count, BLOCK, UINT32_MAX / 2), BLOCK, cuda->stream, dx,
         dy, choice, s, divisor_of(s.H), divisor_of(s.W), count);
}

/* Whether rows of channels can be read and written in packs of V. */
template <typename P>
static bool channels_are_wide(const P *x, const P *y, const uint8_t *choice, int C) {
  return C % WIDE<P> == 0 && is_aligned(x) && is_aligned(y) && is_aligned(choice, WIDE<P>);
}

template <typename P>
static void pool_forward_of(struct cuda *cuda, P *y, uint8_t *choice, const P *x,
                            const struct device_window *window, int B) {
  CHECK(window->size <= 16, "pooling of %d x %d pixels", window->size, window->size);
  if (channels_are_wide(x, y, choice, window->C))
    launch_pool_forward<P, WIDE<P>>(cuda, y, choice, x, window, B);
  else
    launch_pool_forward<P, 1>(cuda, y, choice, x, window, B);
}

template <typename P>
static void pool_backward_of(struct cuda *cuda, P *dx, const P *dy, const uint8_t *choice,
                             const struct device_window *window, int B) {
  if (channels_are_wide(dx, dy, choice, window->C))
    launch_pool_backward<P, WIDE<P>>(cuda, dx, dy, choice, window, B);
  else
    launch_pool_backward<P, 1>(cuda, dx, dy, choice, window, B);
}

void cuda_pool_forward(struct device *d, pixel *y, uint8_t *choice, const pixel *x,
                       const struct device_window *window, int B) {
  struct cuda *cuda = cuda_of(d);
  if (cuda->bf16)
    pool_forward_of(cuda, (bf16 *)y, choice, (const bf16 *)x, window, B);
  else
    pool_forward_of(cuda, (float *)y, choice, (const float *)x, window, B);
}

void cuda_pool_backward(struct device *d, pixel *dx, const pixel *dy, const uint8_t *choice,
                        const struct device_window *window, int B) {
  struct cuda *cuda = cuda_of(d);
  if (cuda->bf16)
    pool_backward_of(cuda, (bf16 *)dx, (const bf16 *)dy, choice, window, B);
  else
    pool_backward_of(cuda, (float *)dx, (const float *)dy, choice, window, B);
}

/* ---- element by element */

DEVICE float positive(float x) {
  return x > 0 ? x : 0;
}

template <typename P, int V>
DEVICE void relu_at(P *y, const P *x, size_t i) {
  pack<P, V> values = load_pack<P, V>(x + i);
  UNROLL
  for (int k = 0; k < V; k++) values.at[k] = from_float<P>(positive(to_float(values.at[k])));
  store_pack(y + i, values);
}

template <typename P, int V>
DEVICE void relu_backward_at(P *dx, const P *dy, const P *y, size_t i) {
  pack<P, V> gradient = load_pack<P, V>(dy + i), output = load_pack<P, V>(y + i);
  UNROLL
  for (int k = 0; k < V; k++)
    if (!(to_float(output.at[k]) > 0)) gradient.at[k] = from_float<P>(0);
  store_pack(dx + i, gradient);
}

/* V at a time, and what is left of n one at a time. */
template <typename P, int V>
KERNEL relu(P *y, const P *x, size_t n) {
  size_t first = grid_first(), step = grid_step(), packs = n / V;
  for (size_t i = first; i < packs; i += step) relu_at<P, V>(y, x, i * V);
  for (size_t i = packs * V + first; i < n; i += step) relu_at<P, 1>(y, x, i);
}

template <typename P, int V>
KERNEL relu_backward(P *dx, const P *dy, const P *y, size_t n) {
  size_t first = grid_first(), step = grid_step(), packs = n / V;
  for (size_t i = first; i < packs; i += step) relu_backward_at<P, V>(dx, dy, y, i * V);
  for (size_t i = packs * V + first; i < n; i += step) relu_backward_at<P, 1>(dx, dy, y, i);
}

template <typename P>
static void relu_of(struct cuda *cuda, P *y, const P *x, size_t n) {
  constexpr int V = WIDE<P>;
  if (n == 0) return;
  if (is_aligned(y) && is_aligned(x))
    LAUNCH((relu<P, V>), blocks_for(n / V), BLOCK, cuda->stream, y, x, n);
  else
    LAUNCH((relu<P, 1>), blocks_for(n), BLOCK, cuda->stream, y, x, n);
}

template <typename P>
static void relu_backward_of(struct cuda *cuda, P *dx, const P *dy, const P *y, size_t n) {
  constexpr int V = WIDE<P>;
  if (n == 0) return;
  if (is_aligned(dx) && is_aligned(dy) && is_aligned(y))
    LAUNCH((relu_backward<P, V>), blocks_for(n / V), BLOCK, cuda->stream, dx, dy, y, n);
  else
    LAUNCH((relu_backward<P, 1>), blocks_for(n), BLOCK, cuda->stream, dx, dy, y, n);
}

void cuda_relu(struct device *d, pixel *y, const pixel *x, size_t n) {
  struct cuda *cuda = cuda_of(d);
  if (cuda->bf16)
    relu_of(cuda, (bf16 *)y, (const bf16 *)x, n);
  else
    relu_of(cuda, (float *)y, (const float *)x, n);
}

void cuda_relu_backward(struct device *d, pixel *dx, const pixel *dy, const pixel *y, size_t n) {
  struct cuda *cuda = cuda_of(d);
  if (cuda->bf16)
    relu_backward_of(cuda, (bf16 *)dx, (const bf16 *)dy, (const bf16 *)y, n);
  else
    relu_backward_of(cuda, (float *)dx, (const float *)dy, (const float *)y, n);
}
