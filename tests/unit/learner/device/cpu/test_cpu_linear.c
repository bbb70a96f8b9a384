/* The CPU device's linear layer, copies and inputs against the reference device. */
#include "tests/unit/learner/device/device_testing.h"

static const enum activation ACTS[] = {ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_TANH};

struct layer {
  int B, I, O, x_stride;
  enum activation act;
};

struct layer_arrays {
  real *x, *w, *b, *y, *dy, *dx, *dw, *db;
  real *dx_alone, *dw_alone; /* where the other is not wanted */
};

static struct layer_arrays run_layer(struct testing *t, const struct layer *l, uint64_t seed) {
  uint64_t random = seed;
  size_t rows = (size_t)l->B, x_count = rows * (size_t)l->x_stride,
         w_count = (size_t)l->I * (size_t)l->O;
  float *x = testing_floats(&random, x_count, 1), *w = testing_floats(&random, w_count, 0.3f);
  float *b = testing_floats(&random, (size_t)l->O, 1),
        *dy = testing_floats(&random, rows * (size_t)l->O, 1);
  for (size_t i = 0; i < rows * (size_t)l->O; i++)
    if (i / (size_t)l->O % 3 == 1) dy[i] = 0; /* all of a row: `dx_alone` may leave it out */
  struct layer_arrays a = {.x = testing_upload(t, x, x_count),
                           .w = testing_upload(t, w, w_count),
                           .b = testing_upload(t, b, (size_t)l->O),
                           .dy = testing_upload(t, dy, rows * (size_t)l->O),
                           .y = testing_room(t, rows * (size_t)l->O),
                           .dx = testing_room(t, rows * (size_t)l->I),
                           .dw = testing_room(t, w_count),
                           .db = testing_room(t, (size_t)l->O),
                           .dx_alone = testing_room(t, rows * (size_t)l->I),
                           .dw_alone = testing_room(t, w_count)};
  real *again = testing_upload(t, dy, rows * (size_t)l->O),
       *third = testing_upload(t, dy, rows * (size_t)l->O), *db = testing_room(t, (size_t)l->O);
  const struct device_ops *ops = t->device->ops;
  ops->linear_forward(t->device, a.y, a.x, l->x_stride, a.w, a.b, l->act, l->B, l->I, l->O);
  ops->linear_backward(t->device, a.dx, a.dw, a.db, a.dy, a.y, a.x, l->x_stride, a.w, l->act, l->B,
                       l->I, l->O);
  ops->linear_backward(t->device, a.dx_alone, NULL, db, again, a.y, a.x, l->x_stride, a.w, l->act,
                       l->B, l->I, l->O);
  ops->linear_backward(t->device, NULL, a.dw_alone, db, third, a.y, a.x, l->x_stride, a.w, l->act,
                       l->B, l->I, l->O);
  free(x);
  free(w);
  free(b);
  free(dy);
  return a;
}

/* The reference adds up to 600 products one after the other in float, which by itself leaves it
 * some 4e-6 off. The CPU adds them in the same order and stays closer to it than the exact sum is;
 * the CUDA device adds in another order. */
static double tolerance_of(const struct device *device) {
  return strcmp(device->ops->name, "cuda") == 0 ? 8e-6 : 4e-6;
}

static void compare_layer(struct testing *cpu, struct testing *ref, const struct layer *l,
                          uint64_t seed) {
  struct layer_arrays got = run_layer(cpu, l, seed), expected = run_layer(ref, l, seed);
  char what[128];
  size_t rows = (size_t)l->B;
  snprintf(what, sizeof what, "B %d I %d O %d stride %d act %d: y", l->B, l->I, l->O, l->x_stride,
           (int)l->act);
  size_t end = strlen(what) - 1;
  double tolerance = tolerance_of(cpu->device);
  testing_compare(what, cpu, got.y, ref, expected.y, rows * (size_t)l->O, tolerance);
  strcpy(what + end, "dy");
  testing_compare(what, cpu, got.dy, ref, expected.dy, rows * (size_t)l->O, tolerance);
  strcpy(what + end, "dw");
  testing_compare(what, cpu, got.dw, ref, expected.dw, (size_t)l->I * (size_t)l->O, 1e-5);
  testing_compare(what, cpu, got.dw_alone, cpu, got.dw, (size_t)l->I * (size_t)l->O, 0);
  strcpy(what + end, "db");
  testing_compare(what, cpu, got.db, ref, expected.db, (size_t)l->O, 1e-5);
  strcpy(what + end, "dx");
  testing_compare(what, cpu, got.dx, ref, expected.dx, rows * (size_t)l->I, 1e-5);
  testing_compare(what, cpu, got.dx_alone, ref, expected.dx_alone, rows * (size_t)l->I, 1e-5);
  if (strcmp(cpu->device->ops->name, "cpu") == 0)
    assert_memory_equal(got.dx_alone, got.dx, rows * (size_t)l->I * sizeof(float));
  testing_release(cpu);
  testing_release(ref);
}

/* ReLU's slope jumps at 0, where two devices' roundings may differ: away from it only. */
static void random_layers(struct testing *cpu, struct testing *ref) {
  uint64_t random = 11;
  for (int i = 0; i < testing_cases(60); i++) {
    struct layer l = {
        .B = testing_size(&random), .I = testing_size(&random), .O = testing_size(&random)};
    if (i < testing_cases(20)) l.O = 1 + i % 5;
    l.x_stride = l.I + (i % 3 == 0 ? testing_below(&random, 9) : 0);
    l.act = ACTS[i % 3];
    compare_layer(cpu, ref, &l, 1000 + (uint64_t)i);
  }
}

/* Several blocks of K and of M, packed panels, and a training batch's tall, thin shapes. */
static void large_layers(struct testing *cpu, struct testing *ref) {
  static const struct layer layers[] = {
      {100, 600, 520, 600, ACTIVATION_TANH}, {130, 257, 1024, 260, ACTIVATION_NONE},
      {640, 64, 64, 64, ACTIVATION_TANH},    {640, 64, 3, 64, ACTIVATION_NONE},
      {640, 4, 64, 4, ACTIVATION_RELU},
  };
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    compare_layer(cpu, ref, &layers[i], 77 + i);
}

/* From where products are in bf16 (cpu_low.h). The two may differ where a ReLU reads about 0. */
static void layers_in_bf16(struct testing *cpu, struct testing *ref) {
  static const struct layer layers[] = {
      {100, 600, 520, 600, ACTIVATION_NONE},
      {33, 257, 70, 260, ACTIVATION_NONE},
      {130, 64, 256, 64, ACTIVATION_RELU},
  };
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    const struct layer *l = &layers[i];
    struct layer_arrays got = run_layer(cpu, l, 77 + i), expected = run_layer(ref, l, 77 + i);
    size_t rows = (size_t)l->B, in = rows * (size_t)l->I, out = rows * (size_t)l->O,
           weights = (size_t)l->I * (size_t)l->O;
    double share = l->act == ACTIVATION_RELU ? 0.1 : 0x1p-7;
    testing_compare_norm("y", cpu, got.y, ref, expected.y, out, 0x1p-7);
    testing_compare_norm("dy", cpu, got.dy, ref, expected.dy, out, share);
    testing_compare_norm("dw", cpu, got.dw, ref, expected.dw, weights, share);
    testing_compare_norm("db", cpu, got.db, ref, expected.db, (size_t)l->O, share);
    testing_compare_norm("dx", cpu, got.dx, ref, expected.dx, in, share);
    testing_compare_norm("dx alone", cpu, got.dx_alone, ref, expected.dx_alone, in, share);
    testing_release(cpu);
    testing_release(ref);
  }
}

/* ---- copies */

static void copies(struct testing *cpu, struct testing *ref) {
  uint64_t random = 3;
  for (int i = 0; i < testing_cases(30); i++) {
    int B = testing_size(&random), n = testing_size(&random), xs = n + testing_below(&random, 5),
        ys = n + i % 4;
    size_t x_count = (size_t)B * (size_t)xs, y_count = (size_t)B * (size_t)ys;
    float *host = testing_floats(&random, x_count, 1);
    struct testing *both[] = {cpu, ref};
    real *y[2], *z[2];
    for (int k = 0; k < 2; k++) {
      struct device *d = both[k]->device;
      real *x = testing_upload(both[k], host, x_count);
      y[k] = testing_room(both[k], y_count);
      z[k] = testing_room(both[k], x_count + 1);
      device_fill(d, y[k], 2.5f, y_count);
      d->ops->copy_rows(d, y[k], ys, x, xs, B, n);
      device_copy(d, device_at(d, z[k], 1), x, x_count);
      testing_add(d, z[k], x, x_count);
    }
    testing_compare("copy_rows and fill", cpu, y[0], ref, y[1], y_count, 0);
    testing_compare("copy and add", cpu, z[0], ref, z[1], x_count + 1, 0);
    testing_release(cpu);
    testing_release(ref);
    free(host);
  }
}

/* ---- embed */

struct rows {
  uint8_t bytes[40][1024];
  int32_t previous[40];
  float reward[40];
  uint8_t flags[40];
};

static void fill_rows(struct rows *rows, const struct device_inputs *in, uint64_t *random) {
  for (int b = 0; b < 40; b++) {
    for (size_t i = 0; i < sizeof rows->bytes[b]; i++)
      rows->bytes[b][i] = (uint8_t)testing_bits(random);
    for (int k = 0; k < in->num_tensors; k++)
      for (int i = 0; i < in->tensor[k].count && in->tensor[k].dtype == DTYPE_FLOAT32; i++) {
        float value = 4 * testing_uniform(random) - 2;
        memcpy(rows->bytes[b] + in->tensor[k].row_offset + 4 * (size_t)i, &value, 4);
      }
    rows->previous[b] = testing_below(random, 6) - 1;
    rows->reward[b] = 6 * testing_uniform(random) - 3;
    rows->flags[b] = (uint8_t)testing_below(random, 8);
  }
}

/* y (count) of all rows; box: the actions if they are one, (40, in.box). */
static real *embed_rows(struct testing *t, struct device_inputs in, const struct rows *rows,
                        const float *box, size_t count) {
  in.observation = testing_bytes(t, rows->bytes, sizeof rows->bytes);
  in.previous_action = in.box ? testing_bytes(t, box, 40 * (size_t)in.box * sizeof *box)
                              : testing_bytes(t, rows->previous, sizeof rows->previous);
  in.reward = testing_bytes(t, rows->reward, sizeof rows->reward);
  in.flags = testing_bytes(t, rows->flags, sizeof rows->flags);
  real *y = testing_room(t, count);
  t->device->ops->embed(t->device, y, &in, 40);
  return y;
}

static void embeds(struct testing *cpu, struct testing *ref) {
  static struct rows rows;
  static const struct device_inputs layouts[] = {
      {.num_tensors = 1, .tensor = {{DTYPE_FLOAT32, 4, 0}}},
      {.num_tensors = 1,
       .tensor = {{DTYPE_UINT8, 37, 16}},
       .discrete = 5,
       .use_previous_action = true},
      {.num_tensors = 1, .tensor = {{DTYPE_FLOAT32, 33, 0}}, .discrete = 3, .use_reward = true},
      {.num_tensors = 3,
       .tensor = {{DTYPE_INT32, 19, 16}, {DTYPE_UINT8, 5, 96}, {DTYPE_FLOAT32, 7, 112}},
       .discrete = 5,
       .use_previous_action = true,
       .use_reward = true},
      {.num_tensors = 1, .tensor = {{DTYPE_FLOAT32, 4, 0}}, .box = 3, .use_previous_action = true},
      {.num_tensors = 1,
       .tensor = {{DTYPE_UINT8, 5, 16}},
       .box = 37,
       .use_previous_action = true,
       .use_reward = true},
      {.num_tensors = 1,
       .tensor = {{DTYPE_FLOAT32, 4, 0}},
       .discrete = 3,
       .use_reward = true,
       .raw_reward = true},
  };
  static float box[40 * 37];
  uint64_t random = 21;
  for (size_t i = 0; i < sizeof box / sizeof *box; i++) box[i] = 4 * testing_uniform(&random) - 2;
  for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
    struct device_inputs in = layouts[k];
    fill_rows(&rows, &in, &random);
    in.row_stride = sizeof rows.bytes[0];
    size_t count = 40 * (size_t)device_inputs_size(&in);
    real *got = embed_rows(cpu, in, &rows, box, count),
         *expected = embed_rows(ref, in, &rows, box, count);
    testing_compare("embed", cpu, got, ref, expected, count, 1e-7);
    testing_release(cpu);
    testing_release(ref);
  }
}

static void test_random_layers(void **state) {
  (void)state;
  testing_each_set(random_layers);
}
static void test_large_layers(void **state) {
  (void)state;
  testing_each_set(large_layers);
}
static void test_layers_in_bf16(void **state) {
  (void)state;
  testing_cpu_in_bf16(layers_in_bf16);
}
static void test_copies(void **state) {
  (void)state;
  testing_each_set(copies);
}
static void test_embed(void **state) {
  (void)state;
  testing_each_set(embeds);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_layers),  cmocka_unit_test(test_large_layers),
      cmocka_unit_test(test_layers_in_bf16), cmocka_unit_test(test_copies),
      cmocka_unit_test(test_embed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
