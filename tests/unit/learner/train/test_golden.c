/* Whole networks for images against PyTorch in float64 (tests/golden/networks/make.py): heads, the
 * gradient of the V-trace loss, parameters after three steps of Adam. Everything that goes in
 * follows from a hash that make.py computes too. */
#include "tests/unit/learner/train/fixture.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/races.h"
#include "learner/device/create.h"
#include "learner/device/shared.h"

enum { GOLDEN_A = 4, GOLDEN_T = 4, GOLDEN_N = 3, GOLDEN_ROWS = (GOLDEN_T + 1) * GOLDEN_N };
enum {
  STREAM_PARAMETERS = 0,
  STREAM_IMAGES = 100,
  STREAM_OLDER = 200,
  STREAM_ACTIONS = 300,
  STREAM_BEHAVIOUR = 400,
  STREAM_REWARDS = 500,
  STREAM_STATES = 600,
  STREAM_PREVIOUS = 700,
  STREAM_ELEMENTS = 700
};

static const uint8_t FLAGS[GOLDEN_ROWS] = {
    0, STEP_FIRST, 0, 0, 0, STEP_TRUNCATED, 0, STEP_FIRST | STEP_TERMINATED, STEP_FIRST};

static uint32_t hash(uint32_t stream, size_t index) {
  uint32_t x = (uint32_t)index + stream * 0x10000000u;
  x ^= x >> 16;
  x *= 0x7FEB352Du;
  x ^= x >> 15;
  x *= 0x846CA68Bu;
  return x ^ x >> 16;
}

/* In [-1, 1). */
static float number(uint32_t stream, size_t index) {
  return (float)(hash(stream, index) >> 8) * 0x1p-23f - 1;
}

/* ---- the case */

struct golden {
  FILE *file;
  char name[32];
  int size, stack, lstm, images;
  struct network *network;
  struct device *device;
  struct train_batch *batch;
  double tolerance;
};

static void open_network(struct golden *g, const char *name, const char *device, double tolerance) {
  char path[128];
  snprintf(path, sizeof path, "tests/golden/networks/%s.txt", name);
  *g = (struct golden){.file = fopen(path, "r"), .tolerance = tolerance};
  if (!g->file) fail_msg("cannot read %s: run this in the tree's root", path);
  assert_int_equal(
      fscanf(g->file, "case %31s %d %d %d %d ", g->name, &g->size, &g->stack, &g->lstm, &g->images),
      5);
  int pixels = g->size * g->size;
  struct network_config config = {
      .network = g->name,
      .head_size = GOLDEN_A,
      .value_size = 1,
      .inputs = {.row_stride = (size_t)(pixels + 15) / 16 * 16,
                 .num_tensors = 1,
                 .tensor = {{DTYPE_UINT8, pixels, 0, g->size, g->size, 1}},
                 .discrete = GOLDEN_A,
                 .use_previous_action = true,
                 .use_reward = true,
                 .stack = g->stack},
      .lstm_size = g->lstm};
  g->network = fixture_network(&config);
  g->device = fixture_device(device);
}

static void fill_images(const struct golden *g, struct train_batch *b) {
  size_t pixels = (size_t)(g->size * g->size);
  uint32_t stream = STREAM_IMAGES + (uint32_t)g->images;
  for (size_t row = 0; row < GOLDEN_ROWS; row++)
    for (size_t p = 0; p < pixels; p++)
      b->observation[row * b->shape.row_stride + p] = (uint8_t)hash(stream, row * pixels + p);
  /* Row k of the older ones is k + 1 steps before the windows. */
  for (int row = 0; row < b->shape.footprint * GOLDEN_N; row++) {
    int before = (row / GOLDEN_N + 1) * GOLDEN_N - row % GOLDEN_N;
    uint8_t *older = b->observation - (size_t)before * b->shape.row_stride;
    for (size_t p = 0; p < pixels; p++)
      older[p] = (uint8_t)hash(STREAM_OLDER, (size_t)row * pixels + p);
  }
  for (int n = 0; n < GOLDEN_N; n++) b->depth[n] = n < b->shape.footprint ? n : b->shape.footprint;
}

static void fill_batch(struct golden *g) {
  struct step_shape shape = discrete_shape(network_inputs(g->network)->row_stride,
                                           network_state_size(g->network), g->stack - 1);
  struct host_batch host = host_batch_create(GOLDEN_T, GOLDEN_N, &shape);
  struct train_batch *b = host.batch;
  int32_t *action = b->action, *previous_action = b->previous_action;
  fill_images(g, b);
  for (size_t i = 0; i < GOLDEN_ROWS; i++) {
    b->flags[i] = FLAGS[i];
    *train_batch_stamp(b, (int)i / GOLDEN_N, (int)i % GOLDEN_N) = step_stamp(0, FLAGS[i]);
    action[i] = (int32_t)(hash(STREAM_ACTIONS, i) % GOLDEN_A);
    b->statistics[i] = number(STREAM_BEHAVIOUR, i) - 1.5f;
    b->reward[i] = 2 * number(STREAM_REWARDS, i);
    previous_action[i] = FLAGS[i] & STEP_FIRST ? -1
                         : i < GOLDEN_N        ? (int32_t)(hash(STREAM_PREVIOUS, i) % GOLDEN_A)
                                               : action[i - GOLDEN_N];
  }
  float *state = (float *)b->state;
  for (size_t i = 0; i < (size_t)(GOLDEN_N * b->shape.state_size); i++)
    state[i] = number(STREAM_STATES, i);
  g->batch = train_batch_create(g->device, GOLDEN_T, GOLDEN_N, &shape);
  host_batch_write(&host, g->device, g->batch);
  host_batch_destroy(&host);
}

/* The deviation falls with the number of inputs, in powers of two. */
static void set_parameters(struct golden *g, struct update *update) {
  int count;
  const struct network_parameter *parameter = network_parameters(g->network, &count);
  update_save(update);
  for (int j = 0; j < count; j++) {
    char name[64];
    snprintf(name, sizeof name, "params/%s", parameter[j].name);
    float *data = fixture_item(update, name).data;
    int inputs = parameter[j].rank == 2 ? parameter[j].shape[0] : 0;
    int power = inputs ? 1 - (31 - __builtin_clz((unsigned)inputs)) / 2 : -4;
    for (size_t i = 0; i < parameter[j].count; i++)
      data[i] = ldexpf(number(STREAM_PARAMETERS + (uint32_t)j, i), power);
  }
  update_load(update);
}

static struct update *make_update(struct golden *g, double beta1) {
  struct learner_options config = fixture_options();
  config.algorithm.unroll_length = GOLDEN_T;
  config.algorithm.batch_size = GOLDEN_N;
  config.algorithm.discount = 0.9;
  config.algorithm.actor_critic.lambda = 0.95;
  config.algorithm.actor_critic.rho_clip = config.algorithm.actor_critic.c_clip =
      config.algorithm.actor_critic.pg_rho_clip = config.algorithm.reward_clip = 1;
  config.algorithm.reward_scale = 1;
  config.algorithm.actor_critic.baseline_cost = 0.5;
  config.algorithm.actor_critic.entropy_cost = 0.01;
  config.algorithm.actor_critic.kl_cost = 0;
  config.optimizer.learning_rate = config.optimizer.adam_epsilon = 0.001;
  config.optimizer.adam_beta1 = beta1;
  struct update *update = fixture_update(g->device, g->network, &config);
  set_parameters(g, update);
  return update;
}

/* ---- comparison */

/* Every line "<word> <name> sum, sum of squares, eight elements": single elements within tolerance
 * of the array's deviation. */
static void compare_arrays(struct golden *g, const char *word, const double *flat,
                           double tolerance) {
  int count;
  const struct network_parameter *parameter = network_parameters(g->network, &count);
  for (int j = 0; j < count; j++) {
    char got_word[16], name[32];
    double expected[10], sum = 0, squares = 0;
    assert_int_equal(fscanf(g->file, "%15s %31s", got_word, name), 2);
    assert_string_equal(got_word, word);
    assert_string_equal(name, parameter[j].name);
    for (int k = 0; k < 10; k++) assert_int_equal(fscanf(g->file, "%lf", &expected[k]), 1);
    const double *x = flat + parameter[j].offset;
    size_t n = parameter[j].count;
    for (size_t i = 0; i < n; i++) {
      sum += x[i];
      squares += x[i] * x[i];
    }
    double typical = sqrt(expected[1] / (double)n) + 1e-9;
    if (fabs(sum - expected[0]) > tolerance * typical * (double)n ||
        fabs(squares - expected[1]) > tolerance * (expected[1] + 1e-12))
      fail_msg("%s %s %s: sums %.10g and %.10g, expected %.10g and %.10g", g->name, word, name, sum,
               squares, expected[0], expected[1]);
    for (int k = 0; k < 8; k++) {
      size_t i = hash(STREAM_ELEMENTS + (uint32_t)j, (size_t)k) % n;
      if (fabs(x[i] - expected[2 + k]) > tolerance * (fabs(expected[2 + k]) + typical))
        fail_msg("%s %s %s[%zu]: %.10g, expected %.10g", g->name, word, name, i, x[i],
                 expected[2 + k]);
    }
  }
}

static void compare_heads(struct golden *g, const struct update *update) {
  struct network_workspace *workspace =
      network_workspace_create(g->network, g->device, GOLDEN_ROWS, false);
  struct device_inputs inputs = fixture_batch_inputs(g->network, g->batch);
  struct device_shared frame = device_share(g->device, GOLDEN_ROWS * 16 * sizeof(int32_t));
  if (g->stack > 1) update_stack_frames(frame.host, g->batch, g->stack);
  device_shared_upload(g->device, &frame);
  inputs.history = g->batch->history;
  inputs.frame = frame.memory;
  struct network_outputs out;
  float head[GOLDEN_ROWS * (GOLDEN_A + 1)];
  network_forward(workspace, &out, NULL, update_parameters(update), &inputs, g->batch->state,
                  GOLDEN_T + 1, GOLDEN_N);
  g->device->ops->download(g->device, head, out.head, GOLDEN_ROWS * (GOLDEN_A + 1));
  for (int i = 0; i < GOLDEN_ROWS * (GOLDEN_A + 1); i++) {
    double expected;
    assert_int_equal(fscanf(g->file, i % (GOLDEN_A + 1) ? "%lf" : " head %lf", &expected), 1);
    if (fabs(head[i] - expected) > g->tolerance * (1 + fabs(expected)))
      fail_msg("%s, head of row %d: %.9g, expected %.9g", g->name, i / (GOLDEN_A + 1),
               (double)head[i], expected);
  }
  network_workspace_destroy(workspace);
  device_unshare(g->device, &frame);
}

/* Tolerances of the heads, of the gradient, and of what comes after the first step. */
static void check_case(const char *name, const char *device, double heads, double gradient,
                       double later) {
  struct golden g;
  open_network(&g, name, device, heads);
  fill_batch(&g);
  double *flat = calloc(network_num_parameters(g.network), sizeof *flat);

  /* With beta1 = 0 Adam's m is the gradient. */
  struct update *update = make_update(&g, 0);
  compare_heads(&g, update);
  fixture_step(update, g.batch, 0);
  fixture_saved(flat, update, "adam/m", g.network);
  compare_arrays(&g, "gradient", flat, gradient);
  update_destroy(update);

  update = make_update(&g, 0.9);
  for (int step = 0; step < 3; step++) {
    double expected, loss = fixture_step(update, g.batch, 0).losses.total;
    assert_int_equal(fscanf(g.file, " loss %lf", &expected), 1);
    if (fabs(loss - expected) > (step ? later : heads) * (1 + fabs(expected)))
      fail_msg("%s, loss of step %d: %.9g, expected %.9g", g.name, step, loss, expected);
  }
  fixture_saved(flat, update, "params", g.network);
  compare_arrays(&g, "after", flat, later);
  update_destroy(update);

  free(flat);
  fclose(g.file);
  train_batch_destroy(g.device, g.batch);
  device_destroy(g.device);
  network_destroy(g.network);
}

static void the_cpu_computes_what_pytorch_computes(void **state) {
  (void)state;
  check_case("impala_shallow_lstm", "cpu", 1e-4, 1e-4, 1e-4);
  check_case("impala_shallow_stack", "cpu", 1e-4, 1e-4, 1e-4);
  check_case("nature_lstm", "cpu", 1e-4, 1e-4, 1e-4);
  check_case("nature_stack", "cpu", 1e-4, 1e-4, 1e-4);
}

/* Where the gradient jumps float32 may fall on the other side than float64: at 37 x 37 after the
 * first step, at 84 x 84 at once (make.py). */
static void the_cpu_computes_the_deep_network_as_pytorch_does(void **state) {
  (void)state;
  check_case("impala_deep_stack", "cpu", 1e-4, 1e-4, 1e-2);
  check_case("impala_deep_lstm", "cpu", 1e-4, 5e-2, 5e-2);
}

/* Each layer and each way of reading images once: an emulated GPU is slow. */
static void cuda_computes_what_pytorch_computes(void **state) {
  (void)state;
  emulated_cuda_use();
  check_case("impala_shallow_lstm", "cuda", 1e-4, 1e-4, 1e-4);
  if (TESTING_FOR_MEMORY) return; /* test_cuda_products touches as much */
  check_case("nature_stack", "cuda", 1e-4, 1e-4, 1e-4);
}

static void cuda_computes_the_deep_network_as_pytorch_does(void **state) {
  (void)state;
  if (TESTING_FOR_MEMORY) return;
  emulated_cuda_use();
  check_case("impala_deep_stack", "cuda", 1e-4, 1e-4, 1e-2);
}

/* The files hold 12 digits, what comes out of an update has a float's 7. */
static void the_reference_computes_what_pytorch_computes(void **state) {
  (void)state;
  check_case("impala_shallow_lstm", "ref_double", 1e-6, 1e-6, 1e-6);
  if (TESTING_FOR_MEMORY) return;
  check_case("nature_stack", "ref_double", 1e-6, 1e-6, 1e-6);
  check_case("impala_deep_stack", "ref_double", 1e-6, 1e-6, 1e-6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_cpu_computes_what_pytorch_computes),
      cmocka_unit_test(the_cpu_computes_the_deep_network_as_pytorch_does),
      cmocka_unit_test(cuda_computes_what_pytorch_computes),
      cmocka_unit_test(cuda_computes_the_deep_network_as_pytorch_does),
      cmocka_unit_test(the_reference_computes_what_pytorch_computes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
