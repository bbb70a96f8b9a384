/* Networks for images: what is refused, sizes that are known from elsewhere, and that a row gets
 * the same answer whatever it is computed with. What they compute is in train/test_golden.c. */
#include "tests/unit/learner/network/fixture.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/skip.h"
#include "learner/device/shared.h"

enum { SIDE = 40, PIXELS = SIDE * SIDE };

static struct network_config config_for(const char *network, int height, int width, int channels,
                                        int stack, int actions, int lstm) {
  int count = height * width * channels;
  return (struct network_config){
      .network = network,
      .head_size = actions,
      .value_size = 1,
      .inputs = {.row_stride = (size_t)(count + 15) / 16 * 16,
                 .num_tensors = 1,
                 .tensor = {{DTYPE_UINT8, count, 0, height, width, channels}},
                 .discrete = actions,
                 .use_previous_action = true,
                 .use_reward = true,
                 .stack = stack},
      .lstm_size = lstm};
}

static void refuse(const struct network_config *config, const char *says) {
  struct network *network;
  struct error error = {""};
  assert_int_equal(network_create(&network, config, &error), STATUS_INVALID);
  if (!strstr(error.text, says)) fail_msg("'%s' does not say '%s'", error.text, says);
}

static void refuses_what_is_no_image(void **state) {
  (void)state;
  struct network_config small = config_for("nature", 20, 84, 1, 1, 4, 0);
  refuse(&small, "network nature reads uint8 or float32 images of at least 36x36");
  struct network_config flat = config_for("impala_deep", 84, 84, 1, 1, 4, 0);
  flat.inputs.tensor[0].channels = 0;
  refuse(&flat, "the observation has none");
  struct network_config whole = config_for("impala_shallow", 84, 84, 1, 1, 4, 0);
  whole.inputs.tensor[0].dtype = DTYPE_INT32;
  refuse(&whole, "use mlp or lstm");
  struct network_config two = config_for("impala_shallow", 84, 84, 1, 1, 4, 0);
  two.inputs.num_tensors = 2;
  two.inputs.tensor[1] = two.inputs.tensor[0];
  two.inputs.tensor[1].width = 80;
  refuse(&two, "must have the same size; the observation has 84x84 and 84x80");
  struct network_config lstm = config_for("impala_shallow", 84, 84, 1, 1, 4, -1);
  refuse(&lstm, "lstm size -1");
  struct network_config stack = config_for("nature", 84, 84, 1, 17, 4, 0);
  refuse(&stack, "17 frames");
}

static size_t count_of(const struct network *network, const char *name) {
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  size_t sum = 0;
  for (int i = 0; i < count; i++)
    if (strncmp(parameter[i].name, name, strlen(name)) == 0) sum += parameter[i].count;
  return sum;
}

/* DQN's layers (Mnih et al. 2015); SEED RL's ImpalaDeep for DeepMind Lab: 72 x 96 pixels in three
 * colours, 9 actions; its DuelingLSTMDQNNet for Atari, 18 actions: 4,357,281 there, where the 18
 * advantages have no biases. */
static void layers_have_their_known_sizes(void **state) {
  (void)state;
  struct network_config nature = config_for("nature", 84, 84, 1, 4, 4, 0);
  struct network *network = fixture_network(&nature);
  assert_int_equal(count_of(network, "conv0"), 8224);
  assert_int_equal(count_of(network, "conv1"), 32832);
  assert_int_equal(count_of(network, "conv2"), 36928);
  assert_int_equal(count_of(network, "hidden"), 1606144);
  network_destroy(network);
  struct network_config deep = config_for("impala_deep", 72, 96, 3, 1, 9, 256);
  network = fixture_network(&deep);
  assert_int_equal(network_num_parameters(network), 1520714);
  assert_int_equal(network_state_size(network), 512);
  network_destroy(network);
  struct network_config dueling = config_for("nature", 84, 84, 1, 4, 18, 512);
  dueling.head_hidden = 512;
  network = fixture_network(&dueling);
  assert_int_equal(count_of(network, "lstm"), 2138112);
  assert_int_equal(count_of(network, "head/value_hidden"), 262656);
  assert_int_equal(count_of(network, "head/value/"), 513);
  assert_int_equal(count_of(network, "head/advantage_hidden"), 262656);
  assert_int_equal(count_of(network, "head/advantage/"), 9216 + 18);
  assert_int_equal(network_num_parameters(network), 4357281 + 18);
  network_destroy(network);
}

/* Where the rest of a picture is plain, what is in front of it decides. */
static void a_plain_background_is_nothing_at_first(void **state) {
  (void)state;
  static const char *const networks[] = {"impala_shallow", "impala_deep", "nature"};
  for (int i = 0; i < 3; i++) {
    struct network_config config = config_for(networks[i], 84, 84, 1, 4, 6, 0);
    struct network *network = fixture_network(&config);
    float *host = malloc(network_num_parameters(network) * sizeof *host);
    int count;
    const struct network_parameter *weight = network_parameters(network, &count);
    network_init_parameters(network, host, 7);
    assert_string_equal(weight->name, "conv0/w");
    size_t outputs = (size_t)weight->shape[1];
    for (size_t o = 0; o < outputs; o++) {
      double sum = 0, squares = 0;
      for (size_t k = o; k < weight->count; k += outputs) {
        sum += (double)host[weight->offset + k];
        squares += pow((double)host[weight->offset + k], 2);
      }
      assert_true(fabs(sum) < 1e-5);
      assert_true(squares > 0.2);
    }
    free(host);
    network_destroy(network);
  }
}

/* ---- answers */

enum { STEPS = 3, COLUMNS = 25, ROWS = STEPS * COLUMNS };

struct world {
  struct network *network;
  struct device *device;
  real *params;
  struct train_batch *batch;
  struct device_inputs inputs;
  struct device_shared frame; /* (ROWS, stack - 1) */
};

static void fill(struct train_batch *b, int32_t *frame, int stack) {
  struct stream stream = {5, 0};
  for (size_t i = 0; i < ROWS * b->shape.row_stride; i++)
    b->observation[i] = (uint8_t)stream_below(&stream, 256);
  for (int i = 0; i < ROWS; i++) {
    b->flags[i] = stream_below(&stream, 4) == 0 ? STEP_FIRST : 0;
    ((int32_t *)b->previous_action)[i] = b->flags[i] ? -1 : stream_below(&stream, ACTIONS);
    b->reward[i] = (float)stream_between(&stream, -2, 2);
    for (int k = 1; k < stack; k++) /* any frames will do */
      frame[i * (stack - 1) + k - 1] = stream_below(&stream, 4) == 0 ? -1 : (i + k) % ROWS;
  }
}

static void open_world(struct world *w, const char *network, int stack, int lstm,
                       const char *device, const char *precision) {
  struct network_config config = config_for(network, SIDE, SIDE, 1, stack, ACTIONS, lstm);
  struct error error;
  w->network = fixture_network(&config);
  if (device_create_by(&w->device, &(struct device_options){.name = device, .precision = precision},
                       &error) != STATUS_OK)
    fail_msg("%s", error.text);
  size_t P = network_num_parameters(w->network);
  float *host = malloc(P * sizeof *host);
  network_init_parameters(w->network, host, 3);
  w->params = w->device->ops->alloc(w->device, P * w->device->ops->real_bytes);
  w->device->ops->upload(w->device, w->params, host, P);
  free(host);
  struct step_shape shape =
      discrete_shape(network_inputs(w->network)->row_stride, network_state_size(w->network), 0);
  w->batch = train_batch_create(w->device, STEPS - 1, COLUMNS, &shape);
  w->frame = device_share(w->device, ROWS * 16 * sizeof(int32_t));
  struct host_batch batch = host_batch_create(STEPS - 1, COLUMNS, &shape);
  fill(batch.batch, w->frame.host, stack);
  host_batch_write(&batch, w->device, w->batch);
  host_batch_destroy(&batch);
  device_shared_upload(w->device, &w->frame);
  w->inputs = fixture_batch_inputs(w->network, w->batch);
  w->inputs.history = w->batch->observation;
  w->inputs.frame = w->frame.memory;
}

static void close_world(struct world *w) {
  device_finish(w->device);
  device_unshare(w->device, &w->frame);
  train_batch_destroy(w->device, w->batch);
  w->device->ops->release(w->device, w->params);
  device_destroy(w->device);
  network_destroy(w->network);
}

static const struct {
  const char *network;
  int stack, lstm;
} CASES[] = {{"impala_shallow", 1, 16}, {"nature", 4, 0}, {"impala_deep", 2, 16}};

enum { NUM_CASES = 3, NUMBERS = ROWS * (ACTIONS + 1) };

/* All at once with room for backward; and step by step, without. */
static void unrolled_equals_step_by_step(void **state) {
  (void)state;
  for (int i = 0; i < NUM_CASES; i++) {
    struct world w;
    open_world(&w, CASES[i].network, CASES[i].stack, CASES[i].lstm, "cpu", "float32");
    struct network_workspace *whole = network_workspace_create(w.network, w.device, ROWS, true);
    struct network_workspace *single =
        network_workspace_create(w.network, w.device, COLUMNS, false);
    struct network_workspace *rows = network_workspace_create(w.network, w.device, ROWS, false);
    struct network_outputs all, one;
    float expected[NUMBERS], got[NUMBERS];
    network_forward(whole, &all, NULL, w.params, &w.inputs, w.batch->state, STEPS, COLUMNS);
    w.device->ops->download(w.device, expected, all.head, NUMBERS);
    network_forward(rows, &all, NULL, w.params, &w.inputs, w.batch->state, STEPS, COLUMNS);
    w.device->ops->download(w.device, got, all.head, NUMBERS);
    for (int k = 0; k < NUMBERS; k++) assert_true(fabsf(got[k] - expected[k]) < 1e-5f);
    for (int t = 0; t < STEPS; t++) {
      struct device_inputs step = w.inputs;
      step.observation += (size_t)(t * COLUMNS) * step.row_stride;
      step.previous_action = (const int32_t *)step.previous_action + t * COLUMNS;
      step.reward += t * COLUMNS;
      step.flags += t * COLUMNS;
      step.frame += t * COLUMNS * (CASES[i].stack - 1);
      network_forward(single, &one, w.batch->state, w.params, &step, w.batch->state, 1, COLUMNS);
      w.device->ops->download(w.device, got + t * COLUMNS * (ACTIONS + 1), one.head,
                              COLUMNS * (ACTIONS + 1));
    }
    for (int k = 0; k < NUMBERS; k++) assert_true(fabsf(got[k] - expected[k]) < 1e-5f);
    network_workspace_destroy(whole);
    network_workspace_destroy(single);
    network_workspace_destroy(rows);
    close_world(&w);
  }
}

/* ---- bf16 */

/* Heads, and the gradient for a gradient of ones at the heads. */
static void run(struct world *w, float *head, float *gradient) {
  const struct device_ops *ops = w->device->ops;
  size_t P = network_num_parameters(w->network);
  struct network_workspace *workspace = network_workspace_create(w->network, w->device, ROWS, true);
  struct network_outputs out;
  real *grads = ops->alloc(w->device, P * ops->real_bytes);
  real *dhead = ops->alloc(w->device, NUMBERS * ops->real_bytes);
  device_fill(w->device, dhead, 1, NUMBERS);
  network_forward(workspace, &out, NULL, w->params, &w->inputs, w->batch->state, STEPS, COLUMNS);
  ops->download(w->device, head, out.head, NUMBERS);
  network_backward(workspace, grads, w->params, dhead, &w->inputs, STEPS, COLUMNS);
  ops->download(w->device, gradient, grads, P);
  ops->release(w->device, grads);
  ops->release(w->device, dhead);
  network_workspace_destroy(workspace);
}

/* bf16 has 8 bits, so that each number is off by at most 2^-8 = 0.4 % of itself: heads within 3 %
 * after some 15 layers, whose errors are independent (0.4 % times the root of 15, twice that to be
 * safe), each array's gradient in the same direction. Returns the largest difference of a head. */
static double compare(struct world *exact, struct world *low) {
  float head[2][NUMBERS];
  size_t P = network_num_parameters(exact->network);
  float *expected = malloc(P * sizeof *expected), *got = malloc(P * sizeof *got);
  run(exact, head[0], expected);
  run(low, head[1], got);
  double largest = 0, difference = 0;
  for (int k = 0; k < NUMBERS; k++) {
    largest = fmax(largest, fabsf(head[0][k]));
    difference = fmax(difference, fabsf(head[0][k] - head[1][k]));
  }
  assert_true(difference < 0.03 * largest);
  int count;
  const struct network_parameter *parameter = network_parameters(exact->network, &count);
  for (int j = 0; j < count; j++) {
    double both = 0, a = 0, b = 0;
    for (size_t k = parameter[j].offset; k < parameter[j].offset + parameter[j].count; k++) {
      both += (double)expected[k] * got[k];
      a += (double)expected[k] * expected[k];
      b += (double)got[k] * got[k];
    }
    if (both < 0.99 * sqrt(a * b))
      fail_msg("%s: cosine %.4f", parameter[j].name, both / sqrt(a * b));
  }
  free(expected);
  free(got);
  return difference;
}

/* The least difference from the CPU in float32 over the first networks. */
static double least_difference(int num_cases, const char *device, const char *precision) {
  double least = INFINITY;
  for (int i = 0; i < num_cases; i++) {
    struct world exact, low;
    open_world(&exact, CASES[i].network, CASES[i].stack, CASES[i].lstm, "cpu", "float32");
    open_world(&low, CASES[i].network, CASES[i].stack, CASES[i].lstm, device, precision);
    least = fmin(least, compare(&exact, &low));
    close_world(&exact);
    close_world(&low);
  }
  return least;
}

/* What may be used is oneDNN's to say, not the processor's: see ONEDNN_MAX_CPU_ISA. */
static void bf16_is_close_to_float32(void **state) {
  (void)state;
  struct device *device;
  struct error error;
  if (device_create_by(&device, &(struct device_options){.name = "cpu", .precision = "bf16"},
                       &error) != STATUS_OK) {
    assert_non_null(strstr(error.text, "needs a processor with AVX-512"));
    SKIP(error.text);
  }
  device_destroy(device);
  assert_true(least_difference(NUM_CASES, "cpu", "bf16") > 0);
}

/* Its images are bf16 from the first layer to the last, not only what products read. impala_deep
 * would take an emulated device 12 s; test_golden has it there in float32. */
static void cuda_is_close_to_float32(void **state) {
  (void)state;
  emulated_cuda_use();
  assert_true(least_difference(NUM_CASES - 1, "cuda", "bf16") > 0);
}

static bool processor_has(const char *flag) {
  static char text[1 << 16];
  FILE *file = fopen("/proc/cpuinfo", "r");
  size_t bytes = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
  if (file) fclose(file);
  text[bytes] = '\0';
  return strstr(text, flag);
}

/* It must be one that can be computed here, and bf16 where the processor multiplies in it. */
static void the_automatic_precision_is_close_to_float32(void **state) {
  (void)state;
  bool is_bf16 = least_difference(NUM_CASES, "cpu", "auto") > 0;
  if (getenv("ONEDNN_MAX_CPU_ISA")) return;
  assert_int_equal(is_bf16, processor_has(" avx512_bf16"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses_what_is_no_image),
      cmocka_unit_test(layers_have_their_known_sizes),
      cmocka_unit_test(a_plain_background_is_nothing_at_first),
      cmocka_unit_test(unrolled_equals_step_by_step),
      cmocka_unit_test(bf16_is_close_to_float32),
      cmocka_unit_test(cuda_is_close_to_float32),
      cmocka_unit_test(the_automatic_precision_is_close_to_float32),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
