/* The reference device's images. Part of ref.c. Sums run over the places of the window that lie
 * inside the image; the zeros around it add nothing. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_IMAGE_H
#define ACORN_LEARNER_DEVICE_REF_REF_IMAGE_H

#include "learner/device/ref/ref.h"

/* The row that shows frame k of row b, newest first; NULL: nothing does. */
static const uint8_t *row_of_frame(const struct device_inputs *in, int b, int k) {
  if (k == 0) return in->observation + (size_t)b * in->row_stride;
  int32_t row = in->frame[(size_t)b * (in->stack - 1) + k - 1];
  return row < 0 ? NULL : in->history + (size_t)row * in->row_stride;
}

/* Element i of tensor t of a row. */
static REAL element_of(const struct device_inputs *in, const uint8_t *row, int t, size_t i) {
  const uint8_t *tensor = row + in->tensor[t].row_offset;
  switch (in->tensor[t].dtype) {
    case DTYPE_UINT8:
      return (REAL)tensor[i] / (REAL)255;
    case DTYPE_INT32:
      return (REAL)((const int32_t *)tensor)[i];
    default:
      return (REAL)((const float *)tensor)[i];
  }
}

/* Number i of tensor t of a row, normalised where that is asked for. `before`: numbers of the
 * tensors before t. */
static REAL number_of(const struct device_inputs *in, const uint8_t *row, int t, size_t before,
                      size_t i) {
  REAL x = element_of(in, row, t, i);
  if (!in->mean) return x;
  x = (x - ((const REAL *)in->mean)[before + i]) / ((const REAL *)in->deviation)[before + i];
  return x > (REAL)in->limit ? (REAL)in->limit : x < -(REAL)in->limit ? -(REAL)in->limit : x;
}

/* The channels of pixel p of tensor t, of every plane. Returns where the next go. */
static REAL *write_pixel(REAL *y, const struct device_inputs *in, const uint8_t *row, int t,
                         size_t before, int p) {
  int C = in->tensor[t].channels, planes = in->tensor[t].planes ? in->tensor[t].planes : 1;
  size_t pixels = (size_t)in->tensor[t].height * (size_t)in->tensor[t].width;
  for (int plane = 0; plane < planes; plane++)
    for (int c = 0; c < C; c++)
      *y++ = row ? number_of(in, row, t, before,
                             ((size_t)plane * pixels + (size_t)p) * (size_t)C + (size_t)c)
                 : 0;
  return y;
}

static void ref_image(struct device *d, pixel *y_, const struct device_inputs *in, int B) {
  (void)d;
  REAL *y = (REAL *)y_;
  int stack = in->stack > 1 ? in->stack : 1;
  int pixels = in->tensor[0].height * in->tensor[0].width;
  for (int b = 0; b < B; b++)
    for (int p = 0; p < pixels; p++)
      for (int k = 0; k < stack; k++) {
        size_t before = 0;
        for (int t = 0; t < in->num_tensors; before += (size_t)in->tensor[t++].count)
          y = write_pixel(y, in, row_of_frame(in, b, k), t, before, p);
      }
}

/* One place of a window: where its pixel is in the image read, -1 if outside. */
static ptrdiff_t pixel_read(const struct device_window *v, int b, int row, int column, int place) {
  int y = row * v->stride - device_window_before(v, v->H) + place / v->size;
  int x = column * v->stride - device_window_before(v, v->W) + place % v->size;
  if (y < 0 || y >= v->H || x < 0 || x >= v->W) return -1;
  return ((ptrdiff_t)b * v->H + y) * v->W + x;
}

/* Runs the body with out (index of the pixel written), place and in (index of the pixel read) for
 * every pair that meets. */
#define EACH_PLACE(v, B)                                                          \
  for (int b_ = 0, out = 0, in; b_ < (B); b_++)                                   \
    for (int row_ = 0; row_ < device_window_rows(v); row_++)                      \
      for (int column_ = 0; column_ < device_window_columns(v); column_++, out++) \
        for (int place = 0; place < (v)->size * (v)->size; place++)               \
          if ((in = (int)pixel_read(v, b_, row_, column_, place)) >= 0)

static size_t pixels_written(const struct device_window *v, int B) {
  return (size_t)B * (size_t)device_window_rows(v) * (size_t)device_window_columns(v);
}

static size_t pixels_read(const struct device_window *v, int B) {
  return (size_t)B * (size_t)v->H * (size_t)v->W;
}

static REAL read_through(REAL x, bool open) {
  return open ? activate(ACTIVATION_RELU, x) : x;
}

static void ref_conv_forward(struct device *d, pixel *y_, const pixel *x_, const real *w_,
                             const real *bias, const pixel *residual, enum activation act,
                             bool open, const struct device_window *v, int B) {
  (void)d;
  CHECK(act != ACTIVATION_TANH && !(act && residual), "a convolution with activation %d", act);
  REAL *y = (REAL *)y_;
  const REAL *x = (const REAL *)x_, *w = (const REAL *)w_;
  size_t C = (size_t)v->C, O = (size_t)v->O, n = pixels_written(v, B) * O;
  for (size_t i = 0; i < n; i++) y[i] = ((const REAL *)bias)[i % O];
  EACH_PLACE(v, B)
  for (size_t c = 0; c < C; c++)
    for (size_t o = 0; o < O; o++)
      y[(size_t)out * O + o] +=
          read_through(x[(size_t)in * C + c], open) * w[((size_t)place * C + c) * O + o];
  for (size_t i = 0; i < n; i++) y[i] = activate(act, y[i]);
  for (size_t i = 0; residual && i < n; i++) y[i] += ((const REAL *)residual)[i];
}

/* dx = the gradient with respect to what the windows cover. */
static void inputs_gradient(REAL *dx, const REAL *dy, const REAL *w, const struct device_window *v,
                            int B) {
  size_t C = (size_t)v->C, O = (size_t)v->O;
  memset(dx, 0, pixels_read(v, B) * C * sizeof(REAL));
  EACH_PLACE(v, B)
  for (size_t c = 0; c < C; c++)
    for (size_t o = 0; o < O; o++)
      dx[(size_t)in * C + c] += dy[(size_t)out * O + o] * w[((size_t)place * C + c) * O + o];
}

/* dx += that gradient where x is above 0. */
static void add_through(REAL *dx, const REAL *dy, const REAL *x, const REAL *w,
                        const struct device_window *v, int B) {
  size_t n = pixels_read(v, B) * (size_t)v->C;
  REAL *through = check_alloc(n + 1, sizeof(REAL));
  inputs_gradient(through, dy, w, v, B);
  for (size_t i = 0; i < n; i++)
    if (x[i] > 0) dx[i] += through[i];
  free(through);
}

static void ref_conv_backward(struct device *d, pixel *dx_, real *dw_, real *db_, pixel *dy_,
                              const pixel *y, const pixel *x_, const real *w_, enum activation act,
                              bool open, const struct device_window *v, int B, bool add) {
  (void)d;
  REAL *dw = (REAL *)dw_, *db = (REAL *)db_, *dy = (REAL *)dy_;
  const REAL *x = (const REAL *)x_;
  size_t C = (size_t)v->C, O = (size_t)v->O, n = pixels_written(v, B) * O;
  if (!add) memset(db, 0, O * sizeof(REAL));
  if (!add) memset(dw, 0, (size_t)(v->size * v->size) * C * O * sizeof(REAL));
  for (size_t i = 0; i < n; i++) {
    dy[i] *= slope(act, ((const REAL *)y)[i]);
    db[i % O] += dy[i];
  }
  EACH_PLACE(v, B)
  for (size_t c = 0; c < C; c++)
    for (size_t o = 0; o < O; o++)
      dw[((size_t)place * C + c) * O + o] +=
          dy[(size_t)out * O + o] * read_through(x[(size_t)in * C + c], open);
  if (dx_ && open) add_through((REAL *)dx_, dy, x, (const REAL *)w_, v, B);
  if (dx_ && !open) inputs_gradient((REAL *)dx_, dy, (const REAL *)w_, v, B);
}

static void ref_pool_forward(struct device *d, pixel *y_, uint8_t *choice, const pixel *x_,
                             const struct device_window *v, int B) {
  (void)d;
  REAL *y = (REAL *)y_;
  const REAL *x = (const REAL *)x_;
  size_t C = (size_t)v->C, n = pixels_written(v, B) * C;
  for (size_t i = 0; i < n; i++) y[i] = (REAL)-INFINITY;
  memset(choice, 0, n);
  EACH_PLACE(v, B) for (size_t c = 0; c < C; c++) {
    size_t i = (size_t)out * C + c;
    if (x[(size_t)in * C + c] <= y[i]) continue;
    y[i] = x[(size_t)in * C + c];
    choice[i] = (uint8_t)place;
  }
}

static void ref_pool_backward(struct device *d, pixel *dx_, const pixel *dy_, const uint8_t *choice,
                              const struct device_window *v, int B) {
  (void)d;
  REAL *dx = (REAL *)dx_;
  const REAL *dy = (const REAL *)dy_;
  size_t C = (size_t)v->C;
  memset(dx, 0, (size_t)B * (size_t)v->H * (size_t)v->W * C * sizeof(REAL));
  EACH_PLACE(v, B) for (size_t c = 0; c < C; c++) {
    size_t i = (size_t)out * C + c;
    if (choice[i] == place) dx[(size_t)in * C + c] += dy[i];
  }
}

static void ref_relu(struct device *d, pixel *y, const pixel *x, size_t n) {
  (void)d;
  for (size_t i = 0; i < n; i++) ((REAL *)y)[i] = activate(ACTIVATION_RELU, ((const REAL *)x)[i]);
}

static void ref_relu_backward(struct device *d, pixel *dx, const pixel *dy, const pixel *y,
                              size_t n) {
  (void)d;
  for (size_t i = 0; i < n; i++)
    ((REAL *)dx)[i] = ((const REAL *)y)[i] > 0 ? ((const REAL *)dy)[i] : 0;
}

static void ref_weights_changed(struct device *d) {
  (void)d;
}

#endif
