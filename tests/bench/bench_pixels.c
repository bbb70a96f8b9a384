/* One training update of a network for images, and the oneDNN primitives that it comes to, each
 * alone in the form that suits it best, without reorders: what the update could not be faster
 * than. Usage: bench_pixels [NETWORK [LSTM [float32|bf16 [SECONDS]]]] Times are the thread's CPU
 * time, so that other programs do not count. Prints "update_us=... frames_per_second=...
 * primitives_us=... over_primitives=...". */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "learner/device/create.h"
#include "learner/learn/algorithms.h"
#include "learner/device/cpu/cpu_dnnl_version.h"
#include "learner/run/run_options.h"
#include "tests/unit/support/discrete_shape.h"

enum { T = 20, N = 32, A = 6, SIZE = 84, FRAMES = T * N, ROWS = (T + 1) * N };

static const char *kind = "impala_shallow";
static int lstm = 256;
static bool bf16;
static double seconds = 8;

/* ---- the update */

static struct train_batch *make_batch(struct device *device, const struct network *network) {
  struct step_shape shape =
      discrete_shape(network_inputs(network)->row_stride, network_state_size(network), 0);
  struct train_batch *b = train_batch_create(device, T, N, &shape);
  int32_t *action = b->action, *previous_action = b->previous_action;
  for (size_t i = 0; i < ROWS * b->shape.row_stride; i++)
    b->observation[i] = (uint8_t)random_bits(1, 0, 0, (uint32_t)i, RANDOM_TEST);
  for (int i = 0; i < ROWS; i++) {
    uint64_t bits = random_bits(2, 0, 0, (uint32_t)i, RANDOM_TEST);
    action[i] = (int32_t)(bits % A);
    b->statistics[i] = -1.8f;
    b->reward[i] = (float)(bits >> 8 & 1);
    b->flags[i] = (bits >> 16) % 50 == 0 ? 3 : 0; /* an episode ends now and then */
    previous_action[i] = b->flags[i] ? -1 : (int32_t)((bits >> 32) % A);
  }
  b->num_windows = N;
  return b;
}

/* The options' defaults, which are IMPALA's, with its clip of rewards. */
static struct update *make_update(struct device *device, const struct network *network) {
  static struct learner_options options;
  options_init(&learner_options_table, &options);
  options.algorithm.unroll_length = T;
  options.algorithm.batch_size = N;
  options.algorithm.reward_clip = 1;
  options.optimizer.learning_rate = 1e-4;
  struct update *update;
  struct update_config config = run_options_of_update(&options);
  config.policy = &policy_categorical;
  struct error error;
  CHECK(update_create(&update, device, network, &algorithm_vtrace, &config, &error) == STATUS_OK,
        "%s", error.text);
  return update;
}

/* Median of `count` numbers, which are sorted. */
static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}
static double median_us(int64_t *us, int count) {
  qsort(us, (size_t)count, sizeof *us, compare);
  return (double)us[count / 2];
}

static double update_us(void) {
  struct device *device;
  struct network *network;
  struct error error;
  struct network_config config = {
      .network = kind,
      .head_size = A,
      .value_size = 1,
      .inputs = {.row_stride = SIZE * SIZE,
                 .num_tensors = 1,
                 .tensor = {{DTYPE_UINT8, SIZE * SIZE, 0, SIZE, SIZE, 1}},
                 .discrete = A,
                 .use_previous_action = true,
                 .use_reward = true},
      .lstm_size = lstm};
  CHECK(
      device_create_by(
          &device, &(struct device_options){.name = "cpu", .precision = bf16 ? "bf16" : "float32"},
          &error) == STATUS_OK,
      "%s", error.text);
  CHECK(network_create(&network, &config, &error) == STATUS_OK, "%s", error.text);
  struct update *update = make_update(device, network);
  struct train_batch *batch = make_batch(device, network);
  int64_t us[1000], begin = clock_thread_cpu_us();
  int count = 0;
  for (int i = 0; i < 1000 && (i < 5 || clock_thread_cpu_us() - begin < (int64_t)(seconds * 1e6));
       i++) {
    struct update_stats stats;
    int64_t start = clock_thread_cpu_us();
    update_start(update, batch, 0);
    CHECK(update_finish(update, &stats, &error) == STATUS_OK, "%s", error.text);
    if (i >= 2) us[count++] = clock_thread_cpu_us() - start;
  }
  train_batch_destroy(device, batch);
  update_destroy(update);
  network_destroy(network);
  device_destroy(device);
  return median_us(us, count);
}

/* ---- primitives */

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static const dnnl_query_t FORMS[3][3] = {
    {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
    {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
    {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
static const int ARGUMENTS[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                    {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                    {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};

/* Median time of the primitive on its own arrays, which are as it wants them. */
static double run_us(dnnl_primitive_desc_t described, enum cpu_dnnl_pass pass) {
  dnnl_primitive_t primitive;
  dnnl_exec_arg_t args[3];
  void *memory[3];
  DNNL(dnnl_primitive_create(&primitive, described));
  for (int i = 0; i < 3; i++) {
    const cpu_dnnl_form *form = dnnl_primitive_desc_query_md(described, FORMS[pass][i], 0);
    memory[i] = check_alloc(1, dnnl_memory_desc_get_size(form));
    args[i].arg = ARGUMENTS[pass][i];
    DNNL(dnnl_memory_create(&args[i].memory, form, engine, memory[i]));
  }
  int64_t us[200], begin = clock_thread_cpu_us();
  int count = 0;
  for (int i = 0; i < 200 && (i < 5 || clock_thread_cpu_us() - begin < 300000); i++) {
    int64_t start = clock_thread_cpu_us();
    DNNL(dnnl_primitive_execute(primitive, stream, 3, args));
    DNNL(dnnl_stream_wait(stream));
    if (i >= 2) us[count++] = clock_thread_cpu_us() - start;
  }
  for (int i = 0; i < 3; i++) {
    dnnl_memory_destroy(args[i].memory);
    free(memory[i]);
  }
  dnnl_primitive_destroy(primitive);
  dnnl_primitive_desc_destroy(described);
  return median_us(us, count);
}

#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t describe_dense(dnnl_primitive_desc_t *found, enum cpu_dnnl_pass pass,
                                    const struct cpu_dnnl_arrays *a,
                                    dnnl_primitive_desc_t forward) {
  switch (pass) {
    case PASS_FORWARD:
      return dnnl_inner_product_forward_primitive_desc_create(
          found, engine, dnnl_forward_training, a->x, a->weights, a->bias, a->y, NULL);
    case PASS_DATA:
      return dnnl_inner_product_backward_data_primitive_desc_create(found, engine, a->x, a->weights,
                                                                    a->y, forward, NULL);
    case PASS_WEIGHTS:
      return dnnl_inner_product_backward_weights_primitive_desc_create(
          found, engine, a->x, a->weights, a->bias, a->y, forward, NULL);
  }
  return dnnl_invalid_arguments;
}
#else
static dnnl_status_t describe_dense(dnnl_primitive_desc_t *found, enum cpu_dnnl_pass pass,
                                    const struct cpu_dnnl_arrays *a,
                                    dnnl_primitive_desc_t forward) {
  dnnl_inner_product_desc_t operation;
  dnnl_status_t status = dnnl_invalid_arguments;
  switch (pass) {
    case PASS_FORWARD:
      status = dnnl_inner_product_forward_desc_init(&operation, dnnl_forward_training, a->x,
                                                    a->weights, a->bias, a->y);
      break;
    case PASS_DATA:
      status = dnnl_inner_product_backward_data_desc_init(&operation, a->x, a->weights, a->y);
      break;
    case PASS_WEIGHTS:
      status = dnnl_inner_product_backward_weights_desc_init(&operation, a->x, a->weights, a->bias,
                                                             a->y);
      break;
  }
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(found, &operation, NULL, engine, forward);
}
#endif

/* A convolution of n images in one form, or a dense layer (image 1 x 1) as inner product. */
struct layer {
  int n, H, C, O, size, stride, before, after;
  bool dense;
};

static dnnl_status_t describe(dnnl_primitive_desc_t *found, const struct layer *l,
                              enum cpu_dnnl_pass pass, const struct cpu_dnnl_arrays *arrays,
                              dnnl_primitive_desc_t forward) {
  if (l->dense) return describe_dense(found, pass, arrays, forward);
  struct cpu_dnnl_stride stride = {.step = {l->stride, l->stride},
                                   .before = {l->before, l->before},
                                   .after = {l->after, l->after}};
  return cpu_dnnl_describe_convolution(found, pass, arrays, &stride, engine, NULL, forward);
}

static double pass_us(const struct layer *l, enum cpu_dnnl_pass pass, dnnl_format_tag_t form) {
  int out = (l->H + l->before + l->after - l->size) / l->stride + 1, rank = l->dense ? 2 : 4;
  dnnl_dims_t x = {l->n, l->C, l->H, l->H}, w = {l->O, l->C, l->size, l->size},
              y = {l->n, l->O, out, out};
  dnnl_data_type_t type = bf16 ? dnnl_bf16 : dnnl_f32;
  struct cpu_dnnl_arrays arrays = {
      .x = cpu_dnnl_form_create(rank, x, type, form),
      .weights = cpu_dnnl_form_create(rank, w, type, dnnl_format_tag_any),
      .y = cpu_dnnl_form_create(rank, y, type, form)};
  dnnl_primitive_desc_t forward, described;
  DNNL(describe(&forward, l, PASS_FORWARD, &arrays, NULL));
  described = forward;
  dnnl_status_t status = dnnl_success;
  if (pass != PASS_FORWARD) {
    status = describe(&described, l, pass, &arrays, forward);
    dnnl_primitive_desc_destroy(forward);
  }
  cpu_dnnl_arrays_deinit(&arrays);
  return status == dnnl_success ? run_us(described, pass) : 1e12;
}

/* The best of: all images at once or 32 at a time, oneDNN's form or (H, W, C). */
static double best_us(struct layer l, enum cpu_dnnl_pass pass) {
  double best = 1e12;
  dnnl_format_tag_t forms[] = {dnnl_format_tag_any, l.dense ? dnnl_nc : dnnl_nhwc};
  int all = l.n, parts[] = {all, l.dense ? all : 32};
  for (int i = 0; i < 4; i++) {
    l.n = parts[i / 2];
    double us = pass_us(&l, pass, forms[i % 2]) * all / l.n;
    if (us < best) best = us;
  }
  return best;
}

/* Forward over all rows, backward over those that are trained; data: whether its input needs a
 * gradient; steps: how often (a recurrent product runs step by step, but its weights' gradient is
 * one product). */
static double layer_us(const char *name, struct layer l, bool data) {
  double forward, back = 0, weights;
  l.n = ROWS;
  forward = best_us(l, PASS_FORWARD);
  l.n = FRAMES;
  if (data) back = best_us(l, PASS_DATA);
  weights = best_us(l, PASS_WEIGHTS);
  printf("  %-10s forward %7.0f us, data %7.0f, weights %7.0f\n", name, forward, back, weights);
  return forward + back + weights;
}

static struct layer dense(int I, int O) {
  return (struct layer){.H = 1, .C = I, .O = O, .size = 1, .stride = 1, .dense = true};
}

static double recurrent_us(void) {
  struct layer l = dense(lstm, 4 * lstm);
  l.n = N;
  double step = best_us(l, PASS_FORWARD) * (T + 1) + best_us(l, PASS_DATA) * (T - 1);
  l.n = FRAMES;
  double weights = best_us(l, PASS_WEIGHTS);
  printf("  %-10s steps   %7.0f us, weights %7.0f\n", "recurrent", step, weights);
  return step + weights;
}

static double conv_us(const char *name, int H, int C, int O, int size, int stride, bool same) {
  struct layer l = {.H = H, .C = C, .O = O, .size = size, .stride = stride};
  if (same) l.before = l.after = 1;
  return layer_us(name, l, C > 1);
}

static double deep_us(void) {
  static const int channels[] = {1, 16, 32, 32};
  double sum = 0;
  for (int s = 0, side = SIZE; s < 3; s++) {
    sum += conv_us("section", side, channels[s], channels[s + 1], 3, 1, true);
    side = (side + 1) / 2;
    for (int i = 0; i < 4; i++)
      sum += conv_us("block", side, channels[s + 1], channels[s + 1], 3, 1, true);
  }
  return sum + layer_us("hidden", dense(11 * 11 * 32, 256), true);
}

static double primitives_us(void) {
  DNNL(dnnl_engine_create(&engine, dnnl_cpu, 0));
  DNNL(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
  double sum;
  int hidden = 256;
  if (strcmp(kind, "impala_deep") == 0) {
    sum = deep_us();
  } else if (strcmp(kind, "nature") == 0) {
    hidden = 512;
    sum = conv_us("conv0", 84, 1, 32, 8, 4, false) + conv_us("conv1", 20, 32, 64, 4, 2, false) +
          conv_us("conv2", 9, 64, 64, 3, 1, false) + layer_us("hidden", dense(3136, hidden), true);
  } else {
    sum = conv_us("conv0", 84, 1, 16, 8, 4, false) + conv_us("conv1", 20, 16, 32, 4, 2, false) +
          layer_us("hidden", dense(2592, hidden), true);
  }
  int width = hidden + A + 1;
  if (lstm) sum += layer_us("lstm", dense(width, 4 * lstm), true) + recurrent_us();
  return sum + layer_us("head", dense(lstm ? lstm : width, A + 1), true);
}

int main(int argc, char **argv) {
  if (argc > 1) kind = argv[1];
  if (argc > 2) lstm = atoi(argv[2]);
  if (argc > 3) bf16 = strcmp(argv[3], "bf16") == 0;
  if (argc > 4) seconds = atof(argv[4]);
  omp_set_num_threads(1);
  double update = update_us(), primitives = primitives_us();
  printf("update_us=%.0f frames_per_second=%.0f primitives_us=%.0f over_primitives=%.3f\n", update,
         FRAMES * 1e6 / update, primitives, update / primitives);
  return 0;
}
