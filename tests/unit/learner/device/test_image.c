/* Images: the reference's backward passes against finite differences in double, the CPU device
 * against the reference, and what a window covers. */
#include "tests/unit/learner/device/device_testing.h"

static size_t written(const struct device_window *v, int B) {
  return (size_t)B * (size_t)device_window_rows(v) * (size_t)device_window_columns(v) *
         (size_t)v->O;
}

static size_t read_count(const struct device_window *v, int B) {
  return (size_t)B * (size_t)v->H * (size_t)v->W * (size_t)v->C;
}

static size_t weights_count(const struct device_window *v) {
  return (size_t)(v->size * v->size * v->C * v->O);
}

static void windows_cover_what_tensorflow_covers(void **state) {
  (void)state;
  static const struct {
    struct device_window window;
    int rows, before, after;
  } table[] = {
      {{84, 84, 1, 16, 8, 4, false}, 20, 0, 0}, {{20, 20, 16, 32, 4, 2, false}, 9, 0, 0},
      {{9, 9, 64, 64, 3, 1, false}, 7, 0, 0},   {{84, 84, 4, 16, 3, 1, true}, 84, 1, 1},
      {{84, 84, 16, 16, 3, 2, true}, 42, 0, 1}, {{21, 21, 32, 32, 3, 2, true}, 11, 1, 1},
      {{2, 2, 1, 1, 8, 4, false}, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    const struct device_window *v = &table[i].window;
    assert_int_equal(device_window_rows(v), table[i].rows);
    assert_int_equal(device_window_columns(v), table[i].rows);
    assert_int_equal(device_window_before(v, v->H), table[i].before);
    assert_int_equal(device_window_after(v, v->H), table[i].after);
  }
}

/* ---- convolution */

struct conv {
  struct device_window window;
  int B;
  enum activation act;
  bool residual, open, add; /* add: the gradients of the weights */
};

struct conv_arrays {
  pixel *x, *r, *y, *dy, *dx;
  real *w, *b, *dw, *db;
};

static struct conv_arrays run_conv(struct testing *t, const struct conv *c, uint64_t seed) {
  const struct device_window *v = &c->window;
  size_t in = read_count(v, c->B), out = written(v, c->B), weights = weights_count(v);
  uint64_t random = seed;
  float *x = testing_floats(&random, in, 1), *w = testing_floats(&random, weights, 0.3f),
        *b = testing_floats(&random, (size_t)v->O, 1), *r = testing_floats(&random, out, 1),
        *dy = testing_floats(&random, out, 1), *dx = testing_floats(&random, in, 1);
  struct conv_arrays a = {
      .x = testing_upload_pixels(t, x, in),
      .r = testing_upload_pixels(t, r, out),
      .y = testing_pixel_room(t, out),
      .dy = testing_upload_pixels(t, dy, out),
      .dx = testing_upload_pixels(t, dx, in), /* added to, or overwritten */
      .w = testing_upload(t, w, weights),
      .b = testing_upload(t, b, (size_t)v->O),
      .dw = c->add ? testing_upload(t, w, weights) : testing_room(t, weights),
      .db = c->add ? testing_upload(t, b, (size_t)v->O) : testing_room(t, (size_t)v->O)};
  const struct device_ops *ops = t->device->ops;
  ops->weights_changed(t->device);
  ops->conv_forward(t->device, a.y, a.x, a.w, a.b, c->residual ? a.r : NULL, c->act, c->open, v,
                    c->B);
  ops->conv_backward(t->device, a.dx, a.dw, a.db, a.dy, a.y, a.x, a.w, c->act, c->open, v, c->B,
                     c->add);
  float *host[] = {x, w, b, r, dy, dx};
  for (int i = 0; i < 6; i++) free(host[i]);
  return a;
}

static void compare_conv(struct testing *cpu, struct testing *ref, const struct conv *c,
                         uint64_t seed) {
  const struct device_window *v = &c->window;
  struct conv_arrays got = run_conv(cpu, c, seed), expected = run_conv(ref, c, seed);
  char what[128];
  int end = snprintf(what, sizeof what, "B %d %dx%dx%d -> %d, %d/%d%s ", c->B, v->H, v->W, v->C,
                     v->O, v->size, v->stride, v->same ? " same" : "");
  const struct {
    const char *name;
    const void *got, *expected;
    size_t count;
    double tolerance;
    bool is_pixels;
  } arrays[] = {{"y", got.y, expected.y, written(v, c->B), 1e-5, true},
                {"dy", got.dy, expected.dy, written(v, c->B), 1e-6, true},
                {"dx", got.dx, expected.dx, read_count(v, c->B), 1e-5, true},
                {"dw", got.dw, expected.dw, weights_count(v), 1e-4, false},
                {"db", got.db, expected.db, (size_t)v->O, 1e-4, false}};
  for (int i = 0; i < 5; i++) {
    snprintf(what + end, sizeof what - (size_t)end, "%s", arrays[i].name);
    if (arrays[i].is_pixels)
      testing_compare_pixels(what, cpu, arrays[i].got, ref, arrays[i].expected, arrays[i].count,
                             arrays[i].tolerance);
    else
      testing_compare(what, cpu, arrays[i].got, ref, arrays[i].expected, arrays[i].count,
                      arrays[i].tolerance);
  }
  testing_release(cpu);
  testing_release(ref);
}

/* The networks' layers, odd sizes, one image and batches of several chunks. */
static const struct conv CONVS[] = {
    {{84, 84, 1, 16, 8, 4, false}, 3, ACTIVATION_RELU, false, false, false},
    {{84, 84, 4, 32, 8, 4, false}, 1, ACTIVATION_RELU, false, false, false},
    {{20, 20, 16, 32, 4, 2, false}, 35, ACTIVATION_RELU, false, false, true},
    {{9, 9, 64, 64, 3, 1, false}, 2, ACTIVATION_RELU, false, false, false},
    {{21, 21, 1, 16, 3, 1, true}, 5, ACTIVATION_NONE, false, false, false},
    {{11, 11, 32, 32, 3, 1, true}, 7, ACTIVATION_NONE, true, false, true},
    {{13, 7, 3, 5, 4, 3, false}, 71, ACTIVATION_RELU, false, false, false},
    {{5, 9, 2, 7, 3, 2, true}, 1, ACTIVATION_NONE, true, false, false},
    {{6, 6, 17, 3, 1, 1, false}, 33, ACTIVATION_NONE, false, false, true},
    {{8, 8, 1, 1, 8, 4, false}, 64, ACTIVATION_RELU, false, false, false},
    {{7, 7, 16, 32, 5, 1, true}, 130, ACTIVATION_RELU, false, false, false},
    {{11, 11, 32, 32, 3, 1, true}, 19, ACTIVATION_RELU, false, true, true},
    {{9, 8, 5, 7, 3, 2, false}, 5, ACTIVATION_NONE, true, true, false},
};

static void convolutions_match(struct testing *cpu, struct testing *ref) {
  for (size_t i = 0; i < sizeof CONVS / sizeof *CONVS; i++) {
    const struct device_window *v = &CONVS[i].window;
    /* Most are of several chunks, which threads share: four times what a linear layer may have. */
    size_t products = written(v, CONVS[i].B) / (size_t)v->O * weights_count(v);
    if (!testing_too_large(products / 4)) compare_conv(cpu, ref, &CONVS[i], 100 + i);
  }
}

/* The same address holds other weights after weights_changed; a second layer with weights of the
 * same form has its own. */
static void weights_may_change(struct testing *cpu, struct testing *ref) {
  (void)ref;
  struct device_window v = {6, 6, 16, 16, 3, 1, true};
  struct device *d = cpu->device;
  const struct device_ops *ops = d->ops;
  uint64_t random = 3;
  float *x = testing_floats(&random, read_count(&v, 1), 1);
  float *w = testing_floats(&random, weights_count(&v), 1), zero[16] = {0}, once[2], twice[2];
  pixel *image = testing_upload_pixels(cpu, x, read_count(&v, 1)),
        *y = testing_pixel_room(cpu, written(&v, 1));
  real *b = testing_upload(cpu, zero, 16), *weights = testing_upload(cpu, w, weights_count(&v)),
       *other = testing_zeros(cpu, weights_count(&v));
  ops->conv_forward(d, y, image, weights, b, NULL, ACTIVATION_NONE, false, &v, 1);
  device_download_pixels(d, once, y, 2);
  ops->conv_forward(d, y, image, other, b, NULL, ACTIVATION_NONE, false, &v, 1);
  device_download_pixels(d, twice, y, 2);
  assert_true(twice[0] == 0 && once[0] != 0);
  for (size_t i = 0; i < weights_count(&v); i++) w[i] *= 2;
  ops->upload(d, weights, w, weights_count(&v));
  ops->weights_changed(d);
  ops->conv_forward(d, y, image, weights, b, NULL, ACTIVATION_NONE, false, &v, 1);
  device_download_pixels(d, twice, y, 2);
  assert_true(fabsf(twice[0] - 2 * once[0]) < 1e-4f && fabsf(twice[1] - 2 * once[1]) < 1e-4f);
  free(x);
  free(w);
  testing_release(cpu);
}

/* ---- pooling and relu */

static const struct device_window POOLS[] = {{84, 84, 16, 16, 3, 2, true},
                                             {21, 21, 32, 32, 3, 2, true},
                                             {7, 5, 3, 3, 3, 2, true},
                                             {6, 9, 17, 17, 2, 2, false}};

/* Few different values, so that windows hold equals. */
static void pooling_matches(struct testing *cpu, struct testing *ref) {
  for (size_t i = 0; i < sizeof POOLS / sizeof *POOLS; i++) {
    const struct device_window *v = &POOLS[i];
    int B = 3;
    size_t in = read_count(v, B), out = written(v, B);
    uint64_t random = 7 + i;
    float *x = check_alloc(in, sizeof *x), *dy = testing_floats(&random, out, 1);
    for (size_t k = 0; k < in; k++) x[k] = (float)testing_below(&random, 5) - 2;
    struct testing *side[] = {cpu, ref};
    pixel *y[2], *dx[2];
    uint8_t *choice[2];
    for (int s = 0; s < 2; s++) {
      const struct device_ops *ops = side[s]->device->ops;
      y[s] = testing_pixel_room(side[s], out);
      dx[s] = testing_pixel_room(side[s], in);
      choice[s] = (uint8_t *)testing_room(side[s], out);
      ops->pool_forward(side[s]->device, y[s], choice[s], testing_upload_pixels(side[s], x, in), v,
                        B);
      ops->pool_backward(side[s]->device, dx[s], testing_upload_pixels(side[s], dy, out), choice[s],
                         v, B);
    }
    testing_compare_pixels("pool y", cpu, y[0], ref, y[1], out, 0);
    testing_compare_pixels("pool dx", cpu, dx[0], ref, dx[1], in, 1e-6);
    uint8_t *chosen = testing_bytes_back(cpu, choice[0], out);
    assert_memory_equal(chosen, choice[1], out);
    free(chosen);
    free(x);
    free(dy);
    testing_release(cpu);
    testing_release(ref);
  }
}

static void relus_match(struct testing *cpu, struct testing *ref) {
  enum { N = 77 };
  uint64_t random = 9;
  float *x = testing_floats(&random, N, 1), *dy = testing_floats(&random, N, 1);
  struct testing *side[] = {cpu, ref};
  pixel *y[2], *dx[2];
  for (int s = 0; s < 2; s++) {
    const struct device_ops *ops = side[s]->device->ops;
    y[s] = testing_pixel_room(side[s], N);
    dx[s] = testing_upload_pixels(side[s], dy, N);
    ops->relu(side[s]->device, y[s], testing_upload_pixels(side[s], x, N), N);
    ops->relu_backward(side[s]->device, dx[s], testing_upload_pixels(side[s], dy, N), y[s], N);
  }
  testing_compare_pixels("relu y", cpu, y[0], ref, y[1], N, 0);
  testing_compare_pixels("relu dx", cpu, dx[0], ref, dx[1], N, 1e-6);
  for (int i = 0; i < N; i++)
    assert_true(((float *)y[1])[i] == (x[i] > 0 ? x[i] : 0) &&
                ((float *)dx[1])[i] == (x[i] > 0 ? dy[i] : 0));
  free(x);
  free(dy);
  testing_release(cpu);
  testing_release(ref);
}

/* ---- image */

/* Two environments; the second has one frame only, the first all three. */
static void frames_are_stacked(struct testing *cpu, struct testing *ref) {
  enum { H = 5, W = 7, C = 2, STACK = 3, ROW = 96, OFFSET = 16 };
  static uint8_t rows[4][ROW];
  for (int r = 0; r < 4; r++)
    for (int i = 0; i < ROW; i++) rows[r][i] = (uint8_t)(37 * r + 11 * i);
  /* Rows 1 and 2 are older than row 0, in that order; row 3 is the second environment's. */
  static const int32_t frames[] = {1, 2, -1, -1};
  static uint8_t shown[2][ROW];
  memcpy(shown[0], rows[0], ROW);
  memcpy(shown[1], rows[3], ROW);
  struct device_inputs in = {
      .row_stride = ROW,
      .num_tensors = 1,
      .tensor = {{DTYPE_UINT8, H * W * C, OFFSET, H, W, C}},
  };
  struct testing *side[] = {cpu, ref};
  enum { COUNT = 2 * H * W * C * STACK };
  pixel *y[2], *single[2];
  for (int s = 0; s < 2; s++) {
    y[s] = testing_pixel_room(side[s], COUNT);
    in.observation = testing_bytes(side[s], shown, sizeof shown);
    in.history = testing_bytes(side[s], rows, sizeof rows);
    in.frame = testing_bytes(side[s], frames, sizeof frames);
    in.stack = STACK;
    side[s]->device->ops->image(side[s]->device, y[s], &in, 2);
    single[s] = testing_pixel_room(side[s], COUNT / STACK);
    in.stack = 1;
    side[s]->device->ops->image(side[s]->device, single[s], &in, 2);
  }
  testing_compare_pixels("image", cpu, y[0], ref, y[1], COUNT, 1e-7);
  testing_compare_pixels("image of one", cpu, single[0], ref, single[1], COUNT / STACK, 1e-7);
  static float x[COUNT], single_frame[2];
  device_download_pixels(cpu->device, x, y[0], COUNT);
  device_download_pixels(cpu->device, single_frame, single[0], 2);
  for (int p = 0; p < H * W; p++)
    for (int k = 0; k < STACK; k++)
      for (int c = 0; c < C; c++) {
        float first = (float)rows[k][OFFSET + p * C + c] / 255;
        float second = k == 0 ? (float)rows[3][OFFSET + p * C + c] / 255 : 0;
        assert_true(fabsf(x[(p * STACK + k) * C + c] - first) < 1e-6f);
        assert_true(fabsf(x[((H * W + p) * STACK + k) * C + c] - second) < 1e-6f);
      }
  assert_true(single_frame[1] == (float)rows[0][OFFSET + 1] * (1.0f / 255));
  testing_release(cpu);
  testing_release(ref);
}

/* ---- finite differences, in double */

static double dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static double *doubles(uint64_t *random, size_t n) {
  double *x = check_alloc(n, sizeof *x);
  for (size_t i = 0; i < n; i++) x[i] = 2 * (double)testing_uniform(random) - 1;
  return x;
}

static double conv_loss(struct device *d, const struct conv *c, double *x, double *w, double *b,
                        const double *dy, double *y) {
  d->ops->conv_forward(d, (pixel *)y, (pixel *)x, (real *)w, (real *)b, NULL, c->act, c->open,
                       &c->window, c->B);
  return dot(dy, y, written(&c->window, c->B));
}

static void check_slopes(const char *what, struct device *d, const struct conv *c, double *x,
                         double *w, double *b, const double *dy, double *y, double *varied,
                         const double *gradient, size_t n) {
  for (size_t i = 0; i < n; i += 1 + n / 40) {
    double kept = varied[i], step = 1e-6;
    varied[i] = kept + step;
    double above = conv_loss(d, c, x, w, b, dy, y);
    varied[i] = kept - step;
    double below = conv_loss(d, c, x, w, b, dy, y);
    varied[i] = kept;
    double slope = (above - below) / (2 * step);
    if (fabs(slope - gradient[i]) > 1e-6 * (1 + fabs(slope)))
      fail_msg("%s[%zu]: %.9g, differences give %.9g", what, i, gradient[i], slope);
  }
}

static void conv_backward_is_the_slope(void **state) {
  (void)state;
  static const struct conv convs[] = {
      {{9, 7, 2, 3, 4, 2, false}, 3, ACTIVATION_RELU, false, false, false},
      {{5, 6, 3, 4, 3, 1, true}, 2, ACTIVATION_NONE, false, false, false},
      {{6, 5, 2, 2, 3, 2, true}, 2, ACTIVATION_RELU, false, false, false},
      {{5, 6, 3, 3, 3, 1, true}, 2, ACTIVATION_RELU, false, true, false}};
  struct device *d = device_ref_double_create();
  for (size_t k = 0; k < sizeof convs / sizeof *convs; k++) {
    const struct conv *c = &convs[k];
    uint64_t random = 21 + k;
    size_t in = read_count(&c->window, c->B), out = written(&c->window, c->B),
           weights = weights_count(&c->window), O = (size_t)c->window.O;
    double *x = doubles(&random, in), *w = doubles(&random, weights), *b = doubles(&random, O),
           *dy = doubles(&random, out), *turned = check_alloc(out, sizeof(double)),
           *y = check_alloc(out, sizeof(double)), *dx = check_alloc(in, sizeof(double)),
           *dw = check_alloc(weights, sizeof(double)), *db = check_alloc(O, sizeof(double));
    conv_loss(d, c, x, w, b, dy, y);
    memcpy(turned, dy, out * sizeof(double));
    d->ops->conv_backward(d, (pixel *)dx, (real *)dw, (real *)db, (pixel *)turned, (pixel *)y,
                          (pixel *)x, (real *)w, c->act, c->open, &c->window, c->B, false);
    check_slopes("dx", d, c, x, w, b, dy, y, x, dx, in);
    check_slopes("dw", d, c, x, w, b, dy, y, w, dw, weights);
    check_slopes("db", d, c, x, w, b, dy, y, b, db, O);
    double *arrays[] = {x, w, b, dy, turned, y, dx, dw, db};
    for (int i = 0; i < 9; i++) free(arrays[i]);
  }
  device_destroy(d);
}

static void pool_backward_is_the_slope(void **state) {
  (void)state;
  struct device *d = device_ref_double_create();
  struct device_window v = {7, 6, 3, 3, 3, 2, true};
  enum { B = 2 };
  size_t in = read_count(&v, B), out = written(&v, B);
  uint64_t random = 31;
  double *x = doubles(&random, in), *dy = doubles(&random, out),
         *y = check_alloc(out, sizeof(double)), *dx = check_alloc(in, sizeof(double));
  uint8_t *choice = check_alloc(out, 1);
  d->ops->pool_forward(d, (pixel *)y, choice, (pixel *)x, &v, B);
  d->ops->pool_backward(d, (pixel *)dx, (pixel *)dy, choice, &v, B);
  for (size_t i = 0; i < in; i++) {
    double kept = x[i], sum[2];
    for (int side = 0; side < 2; side++) {
      x[i] = kept + (side ? -1e-6 : 1e-6);
      d->ops->pool_forward(d, (pixel *)y, choice, (pixel *)x, &v, B);
      sum[side] = dot(dy, y, out);
    }
    x[i] = kept;
    double slope = (sum[0] - sum[1]) / 2e-6;
    if (fabs(slope - dx[i]) > 1e-6)
      fail_msg("dx[%zu]: %.9g, differences give %.9g", i, dx[i], slope);
  }
  free(x);
  free(dy);
  free(y);
  free(dx);
  free(choice);
  device_destroy(d);
}

#define EACH_SET(body)                \
  static void body##_(void **state) { \
    (void)state;                      \
    testing_each_set(body);           \
  }
EACH_SET(convolutions_match)
EACH_SET(weights_may_change)
EACH_SET(pooling_matches)
EACH_SET(relus_match)
EACH_SET(frames_are_stacked)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_cover_what_tensorflow_covers),
      cmocka_unit_test(conv_backward_is_the_slope),
      cmocka_unit_test(pool_backward_is_the_slope),
      cmocka_unit_test(convolutions_match_),
      cmocka_unit_test(weights_may_change_),
      cmocka_unit_test(pooling_matches_),
      cmocka_unit_test(relus_match_),
      cmocka_unit_test(frames_are_stacked_),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
