/* The CUDA device's products, each against the reference device in each precision: linear layers,
 * convolutions, LSTMs. What a backward pass reads is the reference's, so that a ReLU whose input is
 * near 0 is open or shut on both. */
#include "tests/unit/learner/device/device_testing.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/skip.h"

/* A tolerance for numbers that are sums of `count` products of numbers about 0.5 in size, each
 * rounded to the precision's digits (bf16: 8 bits, so both factors together are off by up to 2^-7):
 * such errors are independent, their sum grows with the root of the count. The reference adds one
 * after the other in float: a sum's size grows with the root of the count, and with it what each
 * addition loses, so that this error grows with the count. */
static double digits_of(const char *precision) {
  return strcmp(precision, "float32") == 0 ? 0x1p-21
         : strcmp(precision, "tf32") == 0  ? 0x1p-10
                                           : 0x1p-7;
}

static double tolerance_of(const char *precision, int count) {
  return digits_of(precision) * sqrt(1 + count) + 0x1p-25 * count;
}

struct both {
  struct testing cuda, ref;
  const char *precision;
  size_t first, every; /* of each table's cases: one where a way is one of several */
};

/* ---- one array on both devices */

struct array {
  real *cuda, *ref;
  size_t count;
};

static struct array random_array(struct both *t, uint64_t *random, size_t n, float scale) {
  float *host = testing_floats(random, n, scale);
  struct array a = {testing_upload(&t->cuda, host, n), testing_upload(&t->ref, host, n), n};
  free(host);
  return a;
}

/* Not a number throughout, so that what an operation does not write is found. */
static struct array poisoned(struct both *t, size_t n) {
  float *host = check_alloc(n, sizeof *host);
  for (size_t i = 0; i < n; i++) host[i] = NAN;
  struct array a = {testing_upload(&t->cuda, host, n), testing_upload(&t->ref, host, n), n};
  free(host);
  return a;
}

/* The CUDA device goes on with what the reference computed. */
static void take_from_ref(struct both *t, struct array a) {
  t->cuda.device->ops->upload(t->cuda.device, a.cuda, (const float *)a.ref, a.count);
}

static void compare(struct both *t, const char *shape, const char *name, struct array a,
                    double tolerance) {
  char what[160];
  snprintf(what, sizeof what, "%s: %s", shape, name);
  testing_compare(what, &t->cuda, a.cuda, &t->ref, a.ref, a.count, tolerance);
}

static void compare_norm(struct both *t, const char *shape, const char *name, struct array a,
                         double share) {
  char what[160];
  snprintf(what, sizeof what, "%s: %s", shape, name);
  testing_compare_norm(what, &t->cuda, a.cuda, &t->ref, a.ref, a.count, share);
}

static void release(struct both *t) {
  testing_release(&t->cuda);
  testing_release(&t->ref);
}

/* ---- images: where they are bf16 on one device, random ones are the same numbers on both */

struct image {
  pixel *cuda, *ref;
  size_t count;
};

static struct image random_image(struct both *t, uint64_t *random, size_t n) {
  float *host = testing_floats(random, n, 1);
  struct image a = {testing_upload_pixels(&t->cuda, host, n),
                    testing_upload_pixels(&t->ref, host, n), n};
  free(host);
  return a;
}

static struct image poisoned_image(struct both *t, size_t n) {
  return (struct image){testing_pixel_room(&t->cuda, n), testing_pixel_room(&t->ref, n), n};
}

static void image_from_ref(struct both *t, struct image a) {
  testing_put_pixels(t->cuda.device, a.cuda, (const float *)a.ref, a.count);
}

static void compare_image(struct both *t, const char *shape, const char *name, struct image a,
                          double tolerance) {
  char what[160];
  snprintf(what, sizeof what, "%s: %s", shape, name);
  testing_compare_pixels(what, &t->cuda, a.cuda, &t->ref, a.ref, a.count,
                         testing_pixel_tolerance(&t->cuda, tolerance));
}

/* ---- linear */

struct layer {
  int B, I, O, x_stride;
  enum activation act;
  bool no_dx;
  int b_from; /* where the bias begins in its array, as behind other weights */
};

static void check_layer(struct both *t, const struct layer *l, uint64_t seed) {
  uint64_t random = seed;
  size_t rows = (size_t)l->B, in = (size_t)l->I, out = (size_t)l->O;
  if (testing_too_large(rows * in * out)) return;
  struct array x = random_array(t, &random, rows * (size_t)l->x_stride, 1),
               w = random_array(t, &random, in * out, 1),
               b = random_array(t, &random, (size_t)l->b_from + out, 1),
               dy = random_array(t, &random, rows * out, 1), y = poisoned(t, rows * out),
               dx = poisoned(t, rows * in), dw = poisoned(t, in * out), db = poisoned(t, out);
  struct device *c = t->cuda.device, *r = t->ref.device;
  char shape[96];
  snprintf(shape, sizeof shape, "B %d I %d O %d stride %d act %d", l->B, l->I, l->O, l->x_stride,
           (int)l->act);
  const real *b_cuda = (const real *)((const float *)b.cuda + l->b_from),
             *b_ref = (const real *)((const float *)b.ref + l->b_from);
  c->ops->weights_changed(c);
  c->ops->linear_forward(c, y.cuda, x.cuda, l->x_stride, w.cuda, b_cuda, l->act, l->B, l->I, l->O);
  r->ops->linear_forward(r, y.ref, x.ref, l->x_stride, w.ref, b_ref, l->act, l->B, l->I, l->O);
  compare(t, shape, "y", y, tolerance_of(t->precision, l->I));
  take_from_ref(t, y);
  c->ops->linear_backward(c, l->no_dx ? NULL : dx.cuda, dw.cuda, db.cuda, dy.cuda, y.cuda, x.cuda,
                          l->x_stride, w.cuda, l->act, l->B, l->I, l->O);
  r->ops->linear_backward(r, dx.ref, dw.ref, db.ref, dy.ref, y.ref, x.ref, l->x_stride, w.ref,
                          l->act, l->B, l->I, l->O);
  compare(t, shape, "dy", dy, 1e-6);
  compare(t, shape, "db", db, 2e-5);
  compare(t, shape, "dw", dw, tolerance_of(t->precision, l->B));
  if (!l->no_dx) compare(t, shape, "dx", dx, tolerance_of(t->precision, l->O));
  release(t);
}

static void linear_layers(struct both *t) {
  static const enum activation acts[] = {ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_TANH};
  static const struct layer large[] = {
      {100, 600, 520, 600, ACTIVATION_TANH, false, 0},
      {130, 257, 300, 260, ACTIVATION_NONE, false, 0},
      {640, 64, 64, 64, ACTIVATION_TANH, false, 0},
      {640, 64, 3, 64, ACTIVATION_NONE, false, 0},
      {640, 4, 64, 4, ACTIVATION_RELU, true, 0},
      {33, 1000, 70, 1003, ACTIVATION_RELU, true, 0},
      {1, 300, 257, 300, ACTIVATION_RELU, false, 0},
      {40, 300, 256, 300, ACTIVATION_RELU, false, 0},
      {40, 300, 256, 300, ACTIVATION_RELU, false, 3},
      {40, 300, 256, 300, ACTIVATION_RELU, false, 2},
  };
  uint64_t random = 11;
  for (int i = (int)t->first; i < testing_cases(40); i += (int)t->every) {
    struct layer l = {
        .B = testing_size(&random), .I = testing_size(&random), .O = testing_size(&random)};
    if (i < testing_cases(10)) l.O = 1 + i % 5;
    l.x_stride = l.I + (i % 3 == 0 ? testing_below(&random, 9) : 0);
    l.act = acts[i % 3];
    check_layer(t, &l, 1000 + (uint64_t)i);
  }
  for (size_t i = t->first; i < sizeof large / sizeof *large; i += t->every)
    check_layer(t, &large[i], 77 + i);
}

/* Small layers that follow each other are launched together, a few at most. */
enum { CHAINED = 6, CHAINED_ROWS = TESTING_FOR_RACES ? 150 : 700, WIDEST = 64 };
static const struct layer chained[CHAINED] = {
    {CHAINED_ROWS, 40, 64, 43, ACTIVATION_TANH, true, 0},
    {CHAINED_ROWS, 64, 32, 64, ACTIVATION_RELU, false, 0},
    {CHAINED_ROWS, 32, 64, 32, ACTIVATION_NONE, false, 0},
    {CHAINED_ROWS, 64, 8, 64, ACTIVATION_TANH, false, 0},
    {CHAINED_ROWS, 8, 1, 8, ACTIVATION_RELU, false, 0},
    {CHAINED_ROWS, 1, 64, 1, ACTIVATION_NONE, false, 0},
};

struct chain {
  struct array x, w, y[CHAINED], dy[CHAINED], dw[CHAINED], db[CHAINED];
};

static struct chain make_chain(struct both *t) {
  uint64_t random = 5;
  struct chain c = {.x = random_array(t, &random, CHAINED_ROWS * WIDEST, 1),
                    .w = random_array(t, &random, WIDEST * WIDEST, 0.2f)};
  for (int k = 0; k < CHAINED; k++) {
    c.y[k] = poisoned(t, CHAINED_ROWS * WIDEST);
    c.dy[k] = random_array(t, &random, CHAINED_ROWS * WIDEST, 1);
    c.dw[k] = poisoned(t, WIDEST * WIDEST);
    c.db[k] = poisoned(t, WIDEST);
  }
  return c;
}

/* Both passes; with `waits` each layer is done before the next one is given. */
static void run_chain(struct device *d, const struct chain *c, bool waits) {
  for (int k = 0; k < CHAINED; k++) {
    const struct layer *l = &chained[k];
    d->ops->linear_forward(d, c->y[k].cuda, k ? c->y[k - 1].cuda : c->x.cuda, l->x_stride,
                           c->w.cuda, c->w.cuda, l->act, l->B, l->I, l->O);
    if (waits) device_finish(d);
  }
  for (int k = CHAINED - 1; k >= 0; k--) {
    const struct layer *l = &chained[k];
    d->ops->linear_backward(d, k ? c->dy[k - 1].cuda : NULL, c->dw[k].cuda, c->db[k].cuda,
                            c->dy[k].cuda, c->y[k].cuda, k ? c->y[k - 1].cuda : c->x.cuda,
                            l->x_stride, c->w.cuda, l->act, l->B, l->I, l->O);
    if (waits) device_finish(d);
  }
}

static void expect_same_bits(struct device *d, const char *name, int layer, struct array a,
                             struct array b, int count) {
  static float first[CHAINED_ROWS * WIDEST], second[CHAINED_ROWS * WIDEST];
  d->ops->download(d, first, a.cuda, (size_t)count);
  d->ops->download(d, second, b.cuda, (size_t)count);
  if (memcmp(first, second, (size_t)count * sizeof *first) != 0)
    fail_msg("layer %d: %s is another where layers are launched together", layer, name);
}

static void layers_that_follow_each_other(struct both *t) {
  struct device *d = t->cuda.device;
  struct chain one = make_chain(t), together = make_chain(t);
  run_chain(d, &one, true);
  run_chain(d, &together, false);
  for (int k = 0; k < CHAINED; k++) {
    const struct layer *l = &chained[k];
    expect_same_bits(d, "y", k, together.y[k], one.y[k], l->B * l->O);
    expect_same_bits(d, "dy", k, together.dy[k], one.dy[k], l->B * l->O);
    expect_same_bits(d, "dw", k, together.dw[k], one.dw[k], l->I * l->O);
    expect_same_bits(d, "db", k, together.db[k], one.db[k], l->O);
  }
  release(t);
}

/* The layer above images. */
static void check_pixels_layer(struct both *t, const struct layer *l, uint64_t seed) {
  uint64_t random = seed;
  size_t rows = (size_t)l->B, in = (size_t)l->I, out = (size_t)l->O;
  if (testing_too_large(rows * in * out)) return;
  struct image x = random_image(t, &random, rows * in), dx = poisoned_image(t, rows * in);
  struct array w = random_array(t, &random, in * out, 1), b = random_array(t, &random, out, 1),
               dy = random_array(t, &random, rows * out, 1), y = poisoned(t, rows * out),
               dw = poisoned(t, in * out), db = poisoned(t, out);
  struct device *c = t->cuda.device, *r = t->ref.device;
  char shape[96];
  snprintf(shape, sizeof shape, "pixels, B %d I %d O %d act %d", l->B, l->I, l->O, (int)l->act);
  c->ops->weights_changed(c);
  c->ops->linear_pixels_forward(c, y.cuda, x.cuda, w.cuda, b.cuda, l->act, l->B, l->I, l->O);
  r->ops->linear_pixels_forward(r, y.ref, x.ref, w.ref, b.ref, l->act, l->B, l->I, l->O);
  compare(t, shape, "y", y, tolerance_of(t->precision, l->I));
  take_from_ref(t, y);
  c->ops->linear_pixels_backward(c, l->no_dx ? NULL : dx.cuda, dw.cuda, db.cuda, dy.cuda, y.cuda,
                                 x.cuda, w.cuda, l->act, l->B, l->I, l->O);
  r->ops->linear_pixels_backward(r, dx.ref, dw.ref, db.ref, dy.ref, y.ref, x.ref, w.ref, l->act,
                                 l->B, l->I, l->O);
  compare(t, shape, "dy", dy, 1e-6);
  compare(t, shape, "db", db, 2e-5);
  compare(t, shape, "dw", dw, tolerance_of(t->precision, l->B));
  if (!l->no_dx) compare_image(t, shape, "dx", dx, tolerance_of(t->precision, l->O));
  release(t);
}

static void pixels_layers(struct both *t) {
  static const struct layer table[] = {{21, 2592, 256, 0, ACTIVATION_RELU, false, 0},
                                       {3, 64, 512, 0, ACTIVATION_RELU, false, 0},
                                       {1, 32, 16, 0, ACTIVATION_NONE, false, 0},
                                       {70, 128, 33, 0, ACTIVATION_TANH, true, 0}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    check_pixels_layer(t, &table[i], 50 + i);
}

/* ---- LSTM */

struct shape {
  int T, N, H, reset_percent;
};

/* Forgets with resets, and starts from a state that is not a number where every sequence resets. */
static void check_lstm(struct both *t, const struct shape *s, uint64_t seed) {
  uint64_t random = seed;
  size_t state = (size_t)s->N * (size_t)s->H, steps = state * (size_t)s->T;
  size_t flags = (size_t)s->T * (size_t)s->N;
  if (testing_too_large(4 * steps * (size_t)s->H)) return;
  uint8_t *reset = check_alloc(flags, 1);
  for (size_t i = 0; i < flags; i++)
    reset[i] = (uint8_t)((testing_below(&random, 100) < s->reset_percent) |
                         (testing_bits(&random) & 6)); /* other flags mean nothing here */
  const uint8_t *reset_cuda = testing_bytes(&t->cuda, reset, flags);
  struct array wh = random_array(t, &random, 4 * (size_t)s->H * (size_t)s->H,
                                 1 / sqrtf((float)s->H)),
               h0 = s->reset_percent == 100 ? poisoned(t, state)
                                            : random_array(t, &random, state, 1),
               c0 = s->reset_percent == 100 ? poisoned(t, state)
                                            : random_array(t, &random, state, 1),
               gates = random_array(t, &random, 4 * steps, 2),
               dh = random_array(t, &random, steps, 1), h = poisoned(t, steps),
               c = poisoned(t, steps), dgates = poisoned(t, 4 * steps),
               dwh = poisoned(t, 4 * (size_t)s->H * (size_t)s->H);
  struct device *d = t->cuda.device, *r = t->ref.device;
  char shape[96];
  snprintf(shape, sizeof shape, "T %d N %d H %d", s->T, s->N, s->H);
  d->ops->weights_changed(d);
  d->ops->lstm_forward(d, h.cuda, c.cuda, gates.cuda, wh.cuda, h0.cuda, c0.cuda, reset_cuda, s->T,
                       s->N, s->H);
  r->ops->lstm_forward(r, h.ref, c.ref, gates.ref, wh.ref, h0.ref, c0.ref, reset, s->T, s->N, s->H);
  double tolerance = 8 * tolerance_of(t->precision, 1);
  compare(t, shape, "gates", gates, tolerance);
  compare(t, shape, "c", c, tolerance);
  compare(t, shape, "h", h, tolerance);
  struct array forward[] = {gates, c, h};
  for (int i = 0; i < 3; i++) take_from_ref(t, forward[i]);
  d->ops->lstm_backward(d, dgates.cuda, dwh.cuda, dh.cuda, h.cuda, c.cuda, gates.cuda, wh.cuda,
                        h0.cuda, c0.cuda, reset_cuda, s->T, s->N, s->H);
  r->ops->lstm_backward(r, dgates.ref, dwh.ref, dh.ref, h.ref, c.ref, gates.ref, wh.ref, h0.ref,
                        c0.ref, reset, s->T, s->N, s->H);
  compare(t, shape, "dgates", dgates, tolerance);
  compare(t, shape, "dwh", dwh, tolerance * sqrt(1 + s->T * s->N));
  compare_norm(t, shape, "dwh", dwh, 2 * digits_of(t->precision));
  release(t);
  free(reset);
}

static void lstms(struct both *t) {
  static const struct shape table[] = {
      {1, 1, 1, 0},    {1, 17, 7, 50},   {3, 1, 3, 30},   {7, 3, 17, 20},  {20, 7, 64, 5},
      {5, 64, 64, 0},  {4, 33, 100, 10}, {2, 3, 257, 50}, {6, 5, 64, 100}, {3, 70, 128, 3},
      {4, 17, 80, 20}, {3, 16, 256, 10}, {1, 1, 64, 0},
  };
  for (size_t i = t->first; i < sizeof table / sizeof *table; i += t->every)
    check_lstm(t, &table[i], 31 + i);
}

/* What a pass writes both ways, one array behind the other. Owner: the caller, with free. */
static float *written_by_lstm(const struct shape *s, size_t *count) {
  struct testing t = {.device = emulated_cuda_create("bf16"), .low = true};
  uint64_t random = 77;
  size_t H = (size_t)s->H, state = (size_t)s->N * H, steps = state * (size_t)s->T, wide = 4 * H * H;
  real *room[] = {testing_room(&t, 4 * steps), testing_room(&t, steps), testing_room(&t, steps),
                  testing_room(&t, 4 * steps), testing_room(&t, wide)};
  const size_t counts[] = {4 * steps, steps, steps, 4 * steps, wide};
  float *host = testing_floats(&random, 4 * steps + wide + 2 * state + steps, 1);
  uint8_t *reset = check_alloc((size_t)s->T * (size_t)s->N, 1);
  for (int i = 0; i < s->T * s->N; i++) reset[i] = testing_below(&random, 100) < s->reset_percent;
  real *wh = testing_upload(&t, host + 4 * steps, wide),
       *h0 = testing_upload(&t, host + 4 * steps + wide, state),
       *c0 = testing_upload(&t, host + 4 * steps + wide + state, state),
       *dh = testing_upload(&t, host + 4 * steps + wide + 2 * state, steps);
  const uint8_t *first = testing_bytes(&t, reset, (size_t)s->T * (size_t)s->N);
  const struct device_ops *ops = t.device->ops;
  ops->upload(t.device, room[0], host, 4 * steps);
  ops->lstm_forward(t.device, room[1], room[2], room[0], wh, h0, c0, first, s->T, s->N, s->H);
  ops->lstm_backward(t.device, room[3], room[4], dh, room[1], room[2], room[0], wh, h0, c0, first,
                     s->T, s->N, s->H);
  float *written = check_alloc(10 * steps + wide, sizeof *written);
  *count = 0;
  for (int i = 0; i < 5; *count += counts[i++])
    ops->download(t.device, written + *count, room[i], counts[i]);
  free(host);
  free(reset);
  testing_release(&t);
  device_destroy(t.device);
  return written;
}

/* All steps in one launch, whose blocks wait for each other, and a launch of the same kernel for
 * each: the same bits. The emulation runs one block after another, and has but the second way. */
static void test_lstm_in_one_launch(void **state) {
  (void)state;
  static const struct shape table[] = {
      {20, 7, 64, 5}, {5, 64, 64, 0}, {3, 70, 128, 3}, {9, 16, 256, 10}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    size_t count;
    if (testing_too_large(4 * (size_t)(table[i].T * table[i].N * table[i].H * table[i].H)))
      continue;
    float *together = written_by_lstm(&table[i], &count);
    setenv("ACORN_CUDA_WITHOUT", "waits", 1);
    float *apart = written_by_lstm(&table[i], &count);
    unsetenv("ACORN_CUDA_WITHOUT");
    if (memcmp(together, apart, count * sizeof *apart) != 0)
      fail_msg("T %d N %d H %d: one launch writes other bits", table[i].T, table[i].N, table[i].H);
    free(together);
    free(apart);
  }
}

/* ---- convolutions */

/* Of the gradients of weights: images of bf16 are exact, and what is added up is float. */
static const double SHARE_OF_FLOATS = 1e-4;

static double of_images(const struct both *t) {
  return strcmp(t->precision, "tf32") == 0 ? 2 * digits_of(t->precision) : SHARE_OF_FLOATS;
}

struct conv {
  struct device_window window;
  int B;
  enum activation act;
  bool residual, add, no_dx, open;
};

static void check_conv(struct both *t, const struct conv *v, uint64_t seed) {
  const struct device_window *w = &v->window;
  uint64_t random = seed;
  size_t in = (size_t)v->B * (size_t)w->H * (size_t)w->W * (size_t)w->C,
         out = (size_t)v->B * (size_t)device_window_rows(w) * (size_t)device_window_columns(w) *
               (size_t)w->O,
         weights = (size_t)(w->size * w->size * w->C * w->O);
  if (testing_too_large(out / (size_t)w->O * weights)) return;
  struct image x = random_image(t, &random, in), residual = random_image(t, &random, out),
               dy = random_image(t, &random, out), y = poisoned_image(t, out),
               dx = v->open ? random_image(t, &random, in) : poisoned_image(t, in);
  struct array weight = random_array(t, &random, weights, 1),
               b = random_array(t, &random, (size_t)w->O, 1),
               dw = v->add ? random_array(t, &random, weights, 1) : poisoned(t, weights),
               db = v->add ? random_array(t, &random, (size_t)w->O, 1) : poisoned(t, (size_t)w->O);
  struct device *c = t->cuda.device, *r = t->ref.device;
  char shape[96];
  snprintf(shape, sizeof shape, "B %d %dx%dx%d -> %d, %d/%d%s", v->B, w->H, w->W, w->C, w->O,
           w->size, w->stride, w->same ? " same" : "");
  c->ops->weights_changed(c);
  c->ops->conv_forward(c, y.cuda, x.cuda, weight.cuda, b.cuda, v->residual ? residual.cuda : NULL,
                       v->act, v->open, w, v->B);
  r->ops->conv_forward(r, y.ref, x.ref, weight.ref, b.ref, v->residual ? residual.ref : NULL,
                       v->act, v->open, w, v->B);
  compare_image(t, shape, "y", y, tolerance_of(t->precision, w->size * w->size * w->C));
  image_from_ref(t, y);
  c->ops->conv_backward(c, v->no_dx ? NULL : dx.cuda, dw.cuda, db.cuda, dy.cuda, y.cuda, x.cuda,
                        weight.cuda, v->act, v->open, w, v->B, v->add);
  r->ops->conv_backward(r, dx.ref, dw.ref, db.ref, dy.ref, y.ref, x.ref, weight.ref, v->act,
                        v->open, w, v->B, v->add);
  int pixels = (int)(out / (size_t)w->O);
  compare_image(t, shape, "dy", dy, 1e-6);
  compare(t, shape, "db", db, fmax(tolerance_of(t->precision, pixels), 2e-5));
  compare(t, shape, "dw", dw, tolerance_of(t->precision, pixels));
  compare_norm(t, shape, "db", db, SHARE_OF_FLOATS);
  compare_norm(t, shape, "dw", dw, of_images(t));
  if (!v->no_dx)
    compare_image(t, shape, "dx", dx, tolerance_of(t->precision, w->size * w->size * w->O));
  release(t);
}

/* The networks' layers, odd sizes, one image and several; more than one strip of an image. */
static void convolutions(struct both *t) {
  static const struct conv table[] = {
      {{84, 84, 1, 16, 8, 4, false}, 2, ACTIVATION_RELU, false, false, true, false},
      {{84, 84, 4, 32, 8, 4, false}, 1, ACTIVATION_RELU, false, true, true, false},
      {{20, 20, 16, 32, 4, 2, false}, 3, ACTIVATION_RELU, false, false, false, false},
      {{9, 9, 64, 64, 3, 1, false}, 2, ACTIVATION_RELU, false, true, false, false},
      {{84, 84, 4, 16, 3, 1, true}, 1, ACTIVATION_NONE, false, false, true, false},
      {{42, 42, 16, 16, 3, 1, true}, 2, ACTIVATION_RELU, false, false, false, false},
      {{42, 42, 16, 32, 3, 1, true}, 1, ACTIVATION_NONE, false, false, false, false},
      {{21, 21, 32, 32, 3, 1, true}, 2, ACTIVATION_NONE, true, true, false, false},
      {{11, 11, 32, 32, 3, 1, true}, 7, ACTIVATION_NONE, true, false, false, false},
      {{13, 7, 3, 5, 4, 3, false}, 31, ACTIVATION_RELU, false, true, false, false},
      {{5, 9, 2, 7, 3, 2, true}, 1, ACTIVATION_NONE, true, false, false, false},
      {{6, 6, 17, 3, 1, 1, false}, 33, ACTIVATION_NONE, false, false, false, false},
      {{8, 8, 1, 1, 8, 4, false}, 17, ACTIVATION_RELU, false, false, false, false},
      {{7, 7, 16, 32, 5, 1, true}, 20, ACTIVATION_RELU, false, true, false, false},
      {{6, 7, 8, 96, 2, 1, true}, 3, ACTIVATION_RELU, false, false, false, false},
      {{3, 4, 70, 12, 3, 1, true}, 2, ACTIVATION_NONE, true, false, false, false},
      {{42, 42, 16, 16, 3, 1, true}, 1, ACTIVATION_RELU, false, false, false, true},
      {{11, 11, 32, 32, 3, 1, true}, 7, ACTIVATION_RELU, false, true, false, true},
      {{9, 7, 5, 6, 3, 1, true}, 4, ACTIVATION_RELU, false, false, false, true},
      {{8, 9, 12, 20, 4, 2, true}, 3, ACTIVATION_NONE, true, false, false, true},
      {{6, 5, 16, 16, 3, 1, true}, 2, ACTIVATION_RELU, false, false, true, true},
      {{5, 4, 66, 70, 3, 1, true}, 2, ACTIVATION_RELU, false, true, false, true},
      {{20, 20, 32, 64, 4, 2, false}, 2, ACTIVATION_RELU, false, false, false, false},
      {{21, 17, 8, 16, 8, 4, false}, 3, ACTIVATION_RELU, false, true, false, false},
      {{15, 14, 6, 9, 5, 3, true}, 4, ACTIVATION_NONE, true, false, false, true},
      {{7, 8, 16, 16, 2, 3, false}, 9, ACTIVATION_NONE, false, false, false, false},
      {{13, 11, 16, 40, 3, 2, true}, 40, ACTIVATION_RELU, false, false, false, true},
      {{16, 16, 4, 16, 8, 4, true}, 5, ACTIVATION_RELU, false, true, false, true},
      {{18, 20, 4, 20, 4, 2, true}, 3, ACTIVATION_NONE, true, false, false, false},
      {{10, 14, 4, 40, 6, 2, false}, 6, ACTIVATION_RELU, false, false, false, false},
  };
  for (size_t i = t->first; i < sizeof table / sizeof *table; i += t->every)
    check_conv(t, &table[i], 100 + i);
}

/* ---- the way back through pooling and a convolution at once */

static void check_pooled(struct both *t, const struct conv *v, const struct device_window *pool,
                         uint64_t seed) {
  const struct device_window *w = &v->window;
  uint64_t random = seed;
  size_t in = (size_t)v->B * (size_t)w->H * (size_t)w->W * (size_t)w->C,
         between = (size_t)v->B * (size_t)pool->H * (size_t)pool->W * (size_t)pool->C,
         out = (size_t)v->B * (size_t)device_window_rows(pool) *
               (size_t)device_window_columns(pool) * (size_t)pool->C,
         weights = (size_t)(w->size * w->size * w->C * w->O);
  if (testing_too_large(between / (size_t)w->O * weights)) return;
  struct image x = random_image(t, &random, in), dy = random_image(t, &random, out),
               pooled = random_image(t, &random, between), room = poisoned_image(t, between),
               largest = poisoned_image(t, out), dx = poisoned_image(t, in);
  struct array weight = random_array(t, &random, weights, 1),
               dw = v->add ? random_array(t, &random, weights, 1) : poisoned(t, weights),
               db = v->add ? random_array(t, &random, (size_t)w->O, 1) : poisoned(t, (size_t)w->O);
  struct device *c = t->cuda.device, *r = t->ref.device;
  uint8_t *choice_cuda = testing_bytes_room(&t->cuda, out),
          *choice_ref = testing_bytes_room(&t->ref, out);
  char shape[96];
  snprintf(shape, sizeof shape, "pooled, B %d %dx%dx%d -> %d, %d/%d", v->B, w->H, w->W, w->C, w->O,
           w->size, w->stride);
  c->ops->weights_changed(c);
  c->ops->pool_forward(c, largest.cuda, choice_cuda, pooled.cuda, pool, v->B);
  r->ops->pool_forward(r, largest.ref, choice_ref, pooled.ref, pool, v->B);
  c->ops->conv_pool_backward(c, v->no_dx ? NULL : dx.cuda, dw.cuda, db.cuda, room.cuda, dy.cuda,
                             choice_cuda, x.cuda, weight.cuda, w, pool, v->B, v->add);
  r->ops->conv_pool_backward(r, dx.ref, dw.ref, db.ref, room.ref, dy.ref, choice_ref, x.ref,
                             weight.ref, w, pool, v->B, v->add);
  /* The numbers between are sums of up to 4, rounded to bf16. */
  int pixels = (int)(between / (size_t)w->O);
  double more = t->cuda.low ? 2 : 1;
  compare(t, shape, "db", db, more * fmax(tolerance_of(t->precision, pixels), 2e-5));
  compare(t, shape, "dw", dw, more * tolerance_of(t->precision, pixels));
  compare_norm(t, shape, "db", db, t->cuda.low ? 0x1p-8 : SHARE_OF_FLOATS);
  compare_norm(t, shape, "dw", dw, t->cuda.low ? 0x1p-8 : of_images(t));
  if (!v->no_dx)
    compare_image(t, shape, "dx", dx, more * tolerance_of(t->precision, w->size * w->size * w->O));
  release(t);
}

static void pooled_convolutions(struct both *t) {
  static const struct {
    struct conv conv;
    struct device_window pool;
  } table[] = {
      {{{84, 84, 4, 16, 3, 1, true}, 1, ACTIVATION_NONE, false, false, true, false},
       {84, 84, 16, 16, 3, 2, true}},
      {{{21, 21, 16, 32, 3, 1, true}, 3, ACTIVATION_NONE, false, true, false, false},
       {21, 21, 32, 32, 3, 2, true}},
      {{{9, 12, 5, 7, 3, 1, false}, 4, ACTIVATION_NONE, false, false, false, false},
       {7, 10, 7, 7, 2, 2, false}},
      {{{14, 11, 8, 40, 4, 2, true}, 2, ACTIVATION_NONE, false, false, false, false},
       {7, 6, 40, 40, 3, 1, true}},
      {{{6, 6, 66, 70, 3, 1, true}, 2, ACTIVATION_NONE, false, true, false, false},
       {6, 6, 70, 70, 3, 2, true}},
  };
  for (size_t i = t->first; i < sizeof table / sizeof *table; i += t->every)
    check_pooled(t, &table[i].conv, &table[i].pool, 200 + i);
}

/* ---- weights that change */

/* The same address holds other weights after weights_changed. */
static void weights_may_change(struct both *t) {
  enum { I = 512, O = 256 };
  uint64_t random = 3;
  float *w = testing_floats(&random, I * O, 1), once[O], twice[O];
  struct array x = random_array(t, &random, I, 1), b = random_array(t, &random, O, 0),
               y = poisoned(t, O);
  struct device *d = t->cuda.device;
  real *weights = testing_upload(&t->cuda, w, I * O);
  d->ops->weights_changed(d);
  d->ops->linear_forward(d, y.cuda, x.cuda, I, weights, b.cuda, ACTIVATION_NONE, 1, I, O);
  d->ops->download(d, once, y.cuda, O);
  for (int i = 0; i < I * O; i++) w[i] *= 2;
  d->ops->upload(d, weights, w, I * O);
  d->ops->weights_changed(d);
  d->ops->linear_forward(d, y.cuda, x.cuda, I, weights, b.cuda, ACTIVATION_NONE, 1, I, O);
  d->ops->download(d, twice, y.cuda, O);
  for (int o = 0; o < O; o++) assert_true(twice[o] == 2 * once[o]);
  free(w);
  release(t);
}

/* Case `first` of each table and every so many behind it. */
static void with_some(void (*body)(struct both *t), const char *precision, int first, int every) {
  bool low = strcmp(precision, "bf16") == 0;
  struct both t = {.cuda = {.device = emulated_cuda_create(precision), .low = low},
                   .ref = {.device = device_ref_float_create(), .low = low},
                   .precision = precision,
                   .first = (size_t)first,
                   .every = (size_t)every};
  body(&t);
  device_destroy(t.cuda.device);
  device_destroy(t.ref.device);
}

static void with_precision(void (*body)(struct both *t), const char *precision) {
  with_some(body, precision, 0, 1);
}

static void each_precision(void (*body)(struct both *t)) {
  int every = TESTING_FOR_RACES ? 2 : 1;
  with_some(body, "float32", 0, every);
  with_some(body, "tf32", 1 % every, every);
  with_some(body, "bf16", 0, every);
}

#define TEST(body)                        \
  static void test_##body(void **state) { \
    (void)state;                          \
    each_precision(body);                 \
  }
TEST(linear_layers)
TEST(layers_that_follow_each_other)
TEST(pixels_layers)
TEST(lstms)
TEST(convolutions)
TEST(pooled_convolutions)
TEST(weights_may_change)

static void test_convolutions_without_cudnn(void **state) {
  (void)state;
  setenv("ACORN_EMULATED_CUDA", "no_dnn", 1);
  with_some(convolutions, "float32", 1, 2);
  unsetenv("ACORN_EMULATED_CUDA");
}

/* A convolution that cuDNN offers and then refuses goes by columns, from its first use on. */
static void test_convolutions_that_cudnn_refuses(void **state) {
  (void)state;
  static const char *const machines[] = {"dnn_refuses:forward", "dnn_refuses:inputs",
                                         "dnn_refuses:weights"};
  for (int i = 0; i < 3; i++) {
    setenv("ACORN_EMULATED_CUDA", machines[i], 1);
    with_some(convolutions, "float32", i, 3);
  }
  unsetenv("ACORN_EMULATED_CUDA");
}

/* Convolves forward, and back to the weights alone. Returns how often cuDNN was asked and computed
 * since, by these names. */
static void count_calls(long count[4], struct both *t, bool backward, bool inputs) {
  static const char *const names[] = {"choose weights", "choose inputs", "cudnnConvolutionForward",
                                      "cudnnConvolutionBackwardFilter"};
  static const struct device_window w = {6, 5, 8, 4, 3, 1, true};
  enum { B = 2, IN = B * 6 * 5 * 8, OUT = B * 6 * 5 * 4, WEIGHTS = 3 * 3 * 8 * 4 };
  struct device *d = t->cuda.device;
  uint64_t random = 1;
  for (int i = 0; i < 4; i++) count[i] = -emulated_cuda_count(names[i]);
  struct image x = random_image(t, &random, IN), y = random_image(t, &random, OUT);
  struct array weight = random_array(t, &random, WEIGHTS, 1), b = random_array(t, &random, 4, 1);
  d->ops->conv_forward(d, y.cuda, x.cuda, weight.cuda, b.cuda, NULL, ACTIVATION_NONE, false, &w, B);
  if (backward)
    d->ops->conv_backward(d, inputs ? x.cuda : NULL, weight.cuda, b.cuda, y.cuda, y.cuda, x.cuda,
                          weight.cuda, ACTIVATION_NONE, false, &w, B, false);
  device_finish(d);
  for (int i = 0; i < 4; i++) count[i] += emulated_cuda_count(names[i]);
  release(t);
}

static void passes_are_asked_for_apart(struct both *t) {
  long count[4];
  count_calls(count, t, false, false);
  assert_memory_equal(count, ((long[]){0, 0, 1, 0}), sizeof count);
  count_calls(count, t, true, false);
  assert_memory_equal(count, ((long[]){1, 0, 1, 2}), sizeof count); /* tried once */
  count_calls(count, t, true, true);
  assert_memory_equal(count, ((long[]){0, 1, 1, 0}), sizeof count); /* there are none */
  count_calls(count, t, true, false);
  assert_memory_equal(count, ((long[]){0, 0, 1, 1}), sizeof count);
}

static void test_passes_that_cudnn_lacks(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  setenv("ACORN_EMULATED_CUDA", "dnn_lacks:inputs,gpus:1", 1);
  with_precision(passes_are_asked_for_apart, "float32");
  with_some(convolutions, "float32", 1, 3);
  unsetenv("ACORN_EMULATED_CUDA");
}

/* Each by the way that is behind the one which takes it else. */
static void without(const char *way, void (*body)(struct both *t), const char *precision, int first,
                    int every) {
  setenv("ACORN_CUDA_WITHOUT", way, 1);
  with_some(body, precision, first, every);
  unsetenv("ACORN_CUDA_WITHOUT");
}

static void test_other_ways(void **state) {
  (void)state;
  without("tiles", convolutions, "bf16", 0, 2);
  without("tiles", pooled_convolutions, "bf16", 0, 1);
  without("together", lstms, "bf16", 0, 1);
}

/* What a layer of 1s on the diagonal makes of a number. */
static float through_layer(const char *precision, float number) {
  enum { ROWS = 70, SIDE = 256 };
  static float x[ROWS * SIDE], w[SIDE * SIDE], b[SIDE], y[ROWS * SIDE];
  const struct {
    float *host;
    size_t bytes;
  } arrays[] = {{x, sizeof(x)}, {w, sizeof(w)}, {b, sizeof(b)}, {y, sizeof(y)}};
  real *own[4];
  for (int i = 0; i < ROWS * SIDE; i++) x[i] = number;
  for (int i = 0; i < SIDE; i++) w[i * SIDE + i] = 1;
  struct device *d = emulated_cuda_create(precision);
  for (int i = 0; i < 4; i++) {
    own[i] = d->ops->alloc(d, arrays[i].bytes);
    d->ops->upload(d, own[i], arrays[i].host, arrays[i].bytes / sizeof(float));
  }
  d->ops->weights_changed(d);
  d->ops->linear_forward(d, own[3], own[0], SIDE, own[1], own[2], ACTIVATION_NONE, ROWS, SIDE,
                         SIDE);
  d->ops->download(d, y, own[3], ROWS * SIDE);
  for (int i = 0; i < 4; i++) d->ops->release(d, own[i]);
  device_destroy(d);
  for (int i = 1; i < ROWS * SIDE; i++) assert_true(y[i] == y[0]);
  return y[0];
}

/* A number in the middle between two of tf32's, and of bf16's: to nearest, ties away from 0; to
 * nearest, ties to even. */
static void test_rounding_without_cublas(void **state) {
  (void)state;
  if (TESTING_FOR_RACES) return; /* the kernels of test_without_cublas */
  setenv("ACORN_CUDA_WITHOUT", "blas", 1);
  assert_true(through_layer("float32", 1 + 0x1p-11F) == 1 + 0x1p-11F);
  assert_true(through_layer("tf32", 1 + 0x1p-11F) == 1 + 0x1p-10F);
  assert_true(through_layer("bf16", 1 + 0x1p-8F) == 1);
  unsetenv("ACORN_CUDA_WITHOUT");
}

/* Products by Acorn's own kernel, each precision somewhere: of layers; those that are added to, of
 * LSTMs; those with many rows, of convolutions. */
static void test_without_cublas(void **state) {
  (void)state;
  with_precision(weights_may_change, "float32");
  long before = emulated_cuda_is_used() ? emulated_cuda_count("cublasLtMatmul") : 0;
  without("blas", linear_layers, "float32", 0, 2);
  without("blas", linear_layers, "bf16", 1, 2);
  without("blas", pixels_layers, "bf16", 0, 1);
  without("blas", lstms, "tf32", 0, 2);
  if (!TESTING_FOR_RACES) without("blas,dnn", convolutions, "tf32", 2, 3);
  if (!emulated_cuda_is_used()) return;
  assert_int_not_equal(before, 0);
  assert_int_equal(emulated_cuda_count("cublasLtMatmul"), before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_linear_layers),
      cmocka_unit_test(test_layers_that_follow_each_other),
      cmocka_unit_test(test_pixels_layers),
      cmocka_unit_test(test_lstms),
      cmocka_unit_test(test_lstm_in_one_launch),
      cmocka_unit_test(test_convolutions),
      cmocka_unit_test(test_pooled_convolutions),
      cmocka_unit_test(test_convolutions_without_cudnn),
      cmocka_unit_test(test_convolutions_that_cudnn_refuses),
      cmocka_unit_test(test_passes_that_cudnn_lacks),
      cmocka_unit_test(test_other_ways),
      cmocka_unit_test(test_without_cublas),
      cmocka_unit_test(test_rounding_without_cublas),
      cmocka_unit_test(test_weights_may_change),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
