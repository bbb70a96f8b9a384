/* Images: operations image, conv_*, pool_*, relu*. Part of cpu_kernels.c. Convolutions go chunk by
 * chunk to oneDNN; what goes over a whole array before or after is done chunk by chunk too, while
 * the chunk is in the cache. Pooling takes vectors along the channels. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_IMAGE_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_IMAGE_H

#include "common/base/check.h"
#include "learner/device/cpu/cpu_dnnl.h"
#include "learner/device/cpu/cpu_gemm.h"
#include "learner/device/cpu/cpu_low.h"

/* ---- image */

/* One tensor's elements as numbers; the bytes need no alignment. */
static void embed_tensor(float *y, const uint8_t *x, enum dtype dtype, int count) {
  int i = 0;
  if (dtype == DTYPE_UINT8) {
    for (; i + W <= count; i += W)
      store(y + i, __builtin_convertvector(load_bytes(x + i), vf) * (1.0f / 255));
    for (; i < count; i++) y[i] = (float)x[i] * (1.0f / 255);
  } else if (dtype == DTYPE_INT32) {
    const int32_t *whole = (const int32_t *)(const void *)x;
    for (; i + W <= count; i += W) store(y + i, __builtin_convertvector(load_int(whole + i), vf));
    for (; i < count; i++) y[i] = (float)whole[i];
  } else {
    const float *number = (const float *)(const void *)x;
    for (; i < count; i += W) store_some(y + i, load_some(number + i, count - i), count - i);
  }
}

/* The row that shows frame k of row b, newest first; NULL: nothing does. */
static const uint8_t *row_of_frame(const struct device_inputs *in, int b, int k) {
  if (k == 0) return in->observation + (size_t)b * in->row_stride;
  int32_t row = in->frame[(ptrdiff_t)b * (in->stack - 1) + k - 1];
  return row < 0 ? NULL : in->history + (size_t)row * in->row_stride;
}

/* n numbers from number `place` of an image on, normalised if that is asked for. */
static void normalize_numbers(float *y, const struct device_inputs *in, size_t place, size_t n) {
  if (!in->mean) return;
  const float *mean = (const float *)in->mean + place;
  const float *deviation = (const float *)in->deviation + place;
  vf most = splat(in->limit), least = splat(-in->limit);
  for (size_t i = 0; i < n; i += W) {
    int lanes = lanes_left(n, i);
    vf x = (load_some(y + i, lanes) - load_some(mean + i, lanes)) / load_some(deviation + i, lanes);
    store_some(y + i, vmin(most, vmax(least, x)), lanes);
  }
}

/* One frame of tensor t, each of its planes chunk by chunk, `each` numbers from one pixel to the
 * next; row: NULL: zeros; before: numbers of the tensors before. Returns its channels. */
static int write_tensor(float *y, const struct device_inputs *in, int t, size_t before,
                        const uint8_t *row, int each) {
  enum { TOGETHER = 256 };
  enum dtype dtype = in->tensor[t].dtype;
  size_t bytes = dtype_bytes(dtype);
  int C = in->tensor[t].channels, planes = in->tensor[t].planes ? in->tensor[t].planes : 1;
  size_t n = (size_t)in->tensor[t].height * in->tensor[t].width * C;
  for (int plane = 0; plane < planes; plane++) {
    float *to = y + plane * C;
    int c = 0;
    for (size_t i = 0, some; i < n; i += some) {
      float number[TOGETHER] = {0};
      size_t place = plane * n + i;
      some = n - i < TOGETHER ? n - i : TOGETHER;
      if (row) {
        embed_tensor(number, row + in->tensor[t].row_offset + place * bytes, dtype, (int)some);
        normalize_numbers(number, in, before + place, some);
      }
      for (size_t j = 0; j < some; j++) {
        to[c] = number[j];
        if (++c < C) continue;
        c = 0;
        to += each;
      }
    }
  }
  return planes * C;
}

/* Images of any kind, side by side in each pixel. */
static void image_of_any_kind(float *y, const struct device_inputs *in, int B) {
  int stack = in->stack > 1 ? in->stack : 1, each = stack * device_inputs_channels(in);
  size_t n = (size_t)in->tensor[0].height * in->tensor[0].width * each;
  for (int b = 0; b < B; b++, y += n) {
    float *to = y;
    for (int k = 0; k < stack; k++) {
      size_t before = 0;
      for (int t = 0; t < in->num_tensors; before += (size_t)in->tensor[t++].count)
        to += write_tensor(to, in, t, before, row_of_frame(in, b, k), each);
    }
  }
}

static void image(struct device *d, pixel *y_, const struct device_inputs *in, int B) {
  (void)d;
  float *y = (float *)y_;
  if (in->stack > 1 || !device_inputs_plain_image(in)) {
    image_of_any_kind(y, in, B);
    return;
  }
  size_t offset = in->tensor[0].row_offset, n = (size_t)in->tensor[0].count;
  for (int b = 0; b < B; b++, y += n) {
    embed_tensor(y, in->observation + b * in->row_stride + offset, DTYPE_UINT8, (int)n);
    normalize_numbers(y, in, 0, n);
  }
}

/* ---- relu */

static void relu(struct device *d, pixel *y, const pixel *x, size_t n) {
  (void)d;
  for (size_t i = 0; i < n; i += W)
    store_some((float *)y + i, vmax(splat(0), load_some((const float *)x + i, lanes_left(n, i))),
               lanes_left(n, i));
}

/* dy where y is above 0, else 0. */
INLINE vf through_relu(const float *dy, const float *y, int lanes) {
  return select_less(splat(0), load_some(y, lanes), load_some(dy, lanes), splat(0));
}

/* 0 is added so that it has no sign, as in a sum. */
static void relu_backward(struct device *d, pixel *dx_, const pixel *dy_, const pixel *y_,
                          size_t n) {
  (void)d;
  float *dx = (float *)dx_;
  const float *dy = (const float *)dy_, *y = (const float *)y_;
  for (size_t i = 0; i < n; i += W) {
    int lanes = lanes_left(n, i);
    store_some(dx + i, splat(0) + through_relu(dy + i, y + i, lanes), lanes);
  }
}

static void add_through_relu(float *dx, const float *dy, const float *y, size_t n) {
  for (size_t i = 0; i < n; i += W) {
    int lanes = lanes_left(n, i);
    store_some(dx + i, load_some(dx + i, lanes) + through_relu(dy + i, y + i, lanes), lanes);
  }
}

/* dy = 0 where y is not above 0. */
static void turn_relu(float *dy, const float *y, size_t n) {
  for (size_t i = 0; i < n; i += W) {
    int lanes = lanes_left(n, i);
    store_some(dy + i, through_relu(dy + i, y + i, lanes), lanes);
  }
}

static void add_floats(float *y, const float *x, size_t n) {
  for (size_t i = 0; i < n; i += W) {
    int lanes = lanes_left(n, i);
    store_some(y + i, load_some(y + i, lanes) + load_some(x + i, lanes), lanes);
  }
}

/* ---- convolution */

/* Numbers of one image that is read, and of one that is written. */
static size_t read_size(const struct device_window *v) {
  return (size_t)v->H * v->W * v->C;
}

static size_t written_size(const struct device_window *v) {
  return (size_t)device_window_rows(v) * device_window_columns(v) * v->O;
}

/* n numbers as a convolution reads them: as they are, or in bf16. */
static const void *for_window(struct device *d, enum cpu_scratch purpose, const float *x, size_t n,
                              const struct device_window *window) {
  return cpu_dnnl_reads_bf16(d, window) ? low(d, purpose, x, n) : (const void *)x;
}

/* max(x, 0): until the scratch memory is used again. */
static const float *opened(struct device *d, const float *x, size_t n) {
  float *y = cpu_scratch(d, SCRATCH_OPEN, n);
  relu(d, (pixel *)y, (const pixel *)x, n);
  return y;
}

static void conv_forward(struct device *d, pixel *y_, const pixel *x_, const real *weights,
                         const real *b, const pixel *residual_, enum activation act, bool open,
                         const struct device_window *window, int B) {
  CHECK(act != ACTIVATION_TANH && !(act && residual_), "a convolution with activation %d", act);
  float *y = (float *)y_;
  const float *x = (const float *)x_, *residual = (const float *)residual_;
  size_t read = read_size(window), written = written_size(window);
  for (int n; B > 0; B -= n, x += n * read, y += n * written) {
    n = cpu_dnnl_chunk(B);
    const float *seen = open ? opened(d, x, n * read) : x;
    cpu_dnnl_forward(d, y, for_window(d, SCRATCH_LOW_X, seen, n * read, window),
                     (const float *)weights, (const float *)b, act == ACTIVATION_RELU, window, n);
    if (!residual) continue;
    add_floats(y, residual, n * written);
    residual += n * written;
  }
}

static void conv_backward(struct device *d, pixel *dx_, real *dw, real *db, pixel *dy_,
                          const pixel *y_, const pixel *x_, const real *weights,
                          enum activation act, bool open, const struct device_window *window, int B,
                          bool add) {
  unsigned state = flush_tiny();
  float *dx = (float *)dx_, *dy = (float *)dy_;
  const float *x = (const float *)x_, *y = (const float *)y_;
  size_t read = read_size(window), written = written_size(window);
  for (int b = 0, n; b < B; b += n) {
    n = cpu_dnnl_chunk(B - b);
    float *dy_chunk = dy + b * written;
    if (act == ACTIVATION_RELU) turn_relu(dy_chunk, y + b * written, n * written);
    const void *above = for_window(d, SCRATCH_LOW_DY, dy_chunk, n * written, window);
    const float *x_chunk = x + b * read, *seen = open ? opened(d, x_chunk, n * read) : x_chunk;
    const void *below = for_window(d, SCRATCH_LOW_X, seen, n * read, window);
    cpu_dnnl_backward_weights(d, above, below, window, n, b == 0);
    if (!dx) continue;
    float *through = open ? cpu_scratch(d, SCRATCH_OPEN, n * read) : dx + b * read;
    cpu_dnnl_backward_data(d, through, above, (const float *)weights, window, n);
    if (open) add_through_relu(dx + b * read, through, x_chunk, n * read);
  }
  cpu_dnnl_finish_weights(d, (float *)dw, (float *)db, window, add);
  flush_end(state);
}

/* ---- pooling */

/* One place that is written: where its window lies in the image that is read. */
struct place {
  int first_row, first_column; /* may be negative */
};

/* The largest of one window, for `lanes` channels from x on; *choice: its place. */
INLINE vf pool_window(vi *choice, const float *x, const struct device_window *v, struct place at,
                      int lanes) {
  vf best = splat(-__builtin_inff()), which = splat(0);
  for (int i = 0; i < v->size; i++)
    for (int j = 0; j < v->size; j++) {
      int row = at.first_row + i, column = at.first_column + j;
      if (row < 0 || row >= v->H || column < 0 || column >= v->W) continue;
      vf value = load_some(x + ((ptrdiff_t)row * v->W + column) * v->C, lanes);
      which = select_less(best, value, splat((float)(i * v->size + j)), which);
      best = vmax(best, value);
    }
  *choice = __builtin_convertvector(which, vi);
  return best;
}

INLINE struct place place_of(const struct device_window *v, int row, int column) {
  return (struct place){row * v->stride - device_window_before(v, v->H),
                        column * v->stride - device_window_before(v, v->W)};
}

static void pool_forward(struct device *d, pixel *y_, uint8_t *choice, const pixel *x_,
                         const struct device_window *v, int B) {
  (void)d;
  float *y = (float *)y_;
  const float *x = (const float *)x_;
  int rows = device_window_rows(v), columns = device_window_columns(v);
  for (int b = 0; b < B; b++, x += read_size(v))
    for (int row = 0; row < rows; row++)
      for (int column = 0; column < columns; column++, y += v->C, choice += v->C)
        for (int c = 0; c < v->C; c += W) {
          int lanes = at_most_int(W, v->C - c);
          vi which;
          vf best = pool_window(&which, x + c, v, place_of(v, row, column), lanes);
          store_some(y + c, best, lanes);
          for (int i = 0; i < lanes; i++) choice[c + i] = (uint8_t)which[i];
        }
}

/* Adds the gradient of one window to the places that were chosen. */
INLINE void spread_window(float *dx, vf dy, vi choice, const struct device_window *v,
                          struct place at, int lanes) {
  for (int i = 0; i < v->size; i++)
    for (int j = 0; j < v->size; j++) {
      int row = at.first_row + i, column = at.first_column + j;
      if (row < 0 || row >= v->H || column < 0 || column >= v->W) continue;
      float *to = dx + ((ptrdiff_t)row * v->W + column) * v->C;
      vf mine = select_equal(choice, splat_int(i * v->size + j), dy, splat(0));
      store_some(to, load_some(to, lanes) + mine, lanes);
    }
}

static void pool_backward(struct device *d, pixel *dx_, const pixel *dy_, const uint8_t *choice,
                          const struct device_window *v, int B) {
  (void)d;
  float *dx = (float *)dx_;
  const float *dy = (const float *)dy_;
  int rows = device_window_rows(v), columns = device_window_columns(v);
  for (int b = 0; b < B; b++, dx += read_size(v)) {
    memset(dx, 0, read_size(v) * sizeof *dx);
    for (int row = 0; row < rows; row++)
      for (int column = 0; column < columns; column++, dy += v->C, choice += v->C)
        for (int c = 0; c < v->C; c += W) {
          int lanes = at_most_int(W, v->C - c);
          vi which = lanes == W ? load_bytes(choice + c) : load_bytes_part(choice + c, lanes);
          spread_window(dx + c, load_some(dy + c, lanes), which, v, place_of(v, row, column),
                        lanes);
        }
  }
}

#endif
