/* One update of R2D2 against PyTorch in float64 (tests/golden/algorithms/r2d2.py): burn-in of both
 * networks, the loss, priorities, and the gradient of every parameter. Everything that goes in
 * follows from a hash that r2d2.py computes too. */
#include "learner/learn/algorithm.h"
#include "learner/device/shared.h"
#include "learner/learn/algorithms.h"
#include "learner/run/options.h"
#include "tests/unit/learner/network/fixture.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/golden_numbers.h"

enum { BURN_IN = 4, T = 6, N = 3, A = 3, H = 6, OBSERVATION = 4 };
enum { ROWS = (BURN_IN + T + 1) * N };
enum stream_number {
  STREAM_ONLINE,
  STREAM_TARGET,
  STREAM_OBSERVATION,
  STREAM_ACTION,
  STREAM_REWARD,
  STREAM_STATE,
  STREAM_PREVIOUS,
  STREAM_WEIGHT
};

static const uint8_t FLAGS[ROWS] = {0, 0, 1, 3, 0, 0, 0, 0, 4, 0, 0, 1, 0, 0, 0, 0, 0,
                                    0, 0, 3, 0, 4, 3, 0, 1, 0, 3, 0, 0, 0, 0, 0, 4};

/* ---- what goes in */

static struct network *make_network(void) {
  struct network_config config = {.network = "lstm",
                                  .inputs = {.row_stride = 16,
                                             .num_tensors = 1,
                                             .tensor = {{DTYPE_FLOAT32, OBSERVATION, 0}},
                                             .discrete = A,
                                             .use_previous_action = true,
                                             .use_reward = true,
                                             .raw_reward = true},
                                  .head_size = A,
                                  .value_size = 1,
                                  .head_hidden = 5,
                                  .values = {.A = A, .Z = 1, .dueling = true},
                                  .num_layers = 1,
                                  .hidden = {8},
                                  .lstm_size = H,
                                  .activation = ACTIVATION_TANH};
  return fixture_network(&config);
}

static struct learner_options make_options(void) {
  return (struct learner_options){.agent = "r2d2",
                                  .algorithm.unroll_length = T,
                                  .algorithm.q_learning.burn_in = BURN_IN,
                                  .algorithm.batch_size = N,
                                  .algorithm.q_learning.n_steps = 3,
                                  .algorithm.q_learning.partial_returns = true,
                                  .algorithm.q_learning.double_q = true,
                                  .algorithm.discount = 0.997,
                                  .algorithm.reward_scale = 1,
                                  .algorithm.q_learning.value_rescaling = 1e-3,
                                  .algorithm.q_learning.priority_eta = 0.9,
                                  .algorithm.loss_reduction = "sum_over_time"};
}

/* The deviation falls with the number of inputs, in powers of two. */
static real *make_parameters(struct device *d, const struct network *network,
                             enum stream_number stream) {
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  real *flat = d->ops->alloc(d, network_num_parameters(network) * d->ops->real_bytes);
  size_t index = 0;
  for (int j = 0; j < count; j++) {
    int inputs = parameter[j].rank == 2 ? parameter[j].shape[0] : 0;
    float numbers[256];
    assert_true(parameter[j].count <= 256);
    golden_parameter(numbers, parameter[j].count, inputs, stream, &index);
    d->ops->upload(d, device_at(d, flat, parameter[j].offset), numbers, parameter[j].count);
  }
  return flat;
}

static struct train_batch *make_batch(struct device *d) {
  struct step_shape shape = discrete_shape(OBSERVATION * sizeof(float), 2 * H, 0);
  struct host_batch host = host_batch_create(BURN_IN + T, N, &shape);
  struct train_batch *b = host.batch;
  int32_t *action = b->action, *previous_action = b->previous_action;
  float *observation = (float *)(void *)b->observation;
  for (size_t i = 0; i < ROWS * OBSERVATION; i++)
    observation[i] = golden_value(STREAM_OBSERVATION, i);
  for (size_t i = 0; i < ROWS; i++) {
    b->flags[i] = FLAGS[i];
    b->reward[i] = 2 * golden_value(STREAM_REWARD, i);
    action[i] = (int32_t)(golden_hash(STREAM_ACTION, i) % A);
    previous_action[i] = FLAGS[i] & STEP_FIRST ? -1
                         : i < N               ? (int32_t)(golden_hash(STREAM_PREVIOUS, i) % A)
                                               : action[i - N];
  }
  float *state = (float *)b->state;
  for (size_t i = 0; i < N * 2 * H; i++) state[i] = golden_value(STREAM_STATE, i);
  struct train_batch *batch = train_batch_create(d, BURN_IN + T, N, &shape);
  host_batch_write(&host, d, batch);
  host_batch_destroy(&host);
  float *weight = batch->weight.host;
  for (size_t n = 0; n < N; n++) weight[n] = (golden_value(STREAM_WEIGHT, n) + 1) / 2;
  device_shared_upload(d, &batch->weight);
  return batch;
}

/* ---- comparison */

static void compare_reals(const struct golden_cases *golden, struct device *d, const char *name,
                          const real *x, size_t n, double tolerance) {
  void *reals = check_alloc(n, d->ops->real_bytes);
  double *got = check_alloc(n, sizeof(*got));
  d->ops->download_bytes(d, reals, x, n * d->ops->real_bytes);
  device_finish(d);
  for (size_t i = 0; i < n; i++)
    got[i] = d->ops->real_bytes == sizeof(double) ? ((const double *)reals)[i]
                                                  : (double)((const float *)reals)[i];
  golden_compare(golden, d, name, got, n, tolerance);
  free(got);
  free(reals);
}

static void compare_gradient(const struct golden_cases *golden, struct device *d,
                             const struct network *network, real *gradient, double tolerance) {
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  for (int j = 0; j < count; j++)
    compare_reals(golden, d, parameter[j].name, device_at(d, gradient, parameter[j].offset),
                  parameter[j].count, tolerance);
  real *sums = device_at(d, gradient, network_num_parameters(network));
  compare_reals(golden, d, "sums", sums, num_sums_of_q_learning, tolerance);
}

/* Priorities are floats on every device. */
static void compare_priorities(const struct golden_cases *golden, struct device *d,
                               const struct train_batch *batch, double tolerance) {
  device_shared_download(d, &batch->priority, batch->priority.bytes);
  device_finish(d);
  const float *priority = batch->priority.host;
  double got[N];
  for (int n = 0; n < N; n++) got[n] = (double)priority[n];
  golden_compare(golden, d, "priority", got, N, fmax(tolerance, 1e-7));
}

static void run_gradient(struct device *d, const struct network *network, real *gradient,
                         const struct train_batch *batch) {
  struct learner_options options = make_options();
  const struct algorithm *algorithm = algorithms_find(options.agent)->algorithm;
  void *self =
      algorithm->create(&(struct learning){.device = d,
                                           .network = network,
                                           .options = &options.algorithm,
                                           .num_windows = (int)options.algorithm.batch_size,
                                           .seed = (uint64_t)options.seed});
  real *online = make_parameters(d, network, STREAM_ONLINE),
       *target = make_parameters(d, network, STREAM_TARGET);
  struct device_inputs inputs = *network_inputs(network);
  inputs.observation = batch->observation;
  inputs.previous_action = batch->previous_action;
  inputs.reward = batch->reward;
  inputs.flags = batch->flags;
  struct device_schedule *schedule = d->ops->alloc(d, sizeof(*schedule));
  algorithm->gradient(self, gradient, &(struct parameters){.online = online, .target = target},
                      batch, &inputs, schedule, 0);
  device_finish(d);
  d->ops->release(d, schedule);
  algorithm->destroy(self);
  d->ops->release(d, online);
  d->ops->release(d, target);
}

static void check(const char *device, double tolerance) {
  static struct golden_cases golden;
  golden_open(&golden, "tests/golden/algorithms/r2d2.txt");
  assert_true(golden_next(&golden));
  struct device *d = fixture_device(device);
  struct network *network = make_network();
  struct train_batch *batch = make_batch(d);
  size_t count = network_num_parameters(network) + (size_t)algorithm_q_learning.num_sums;
  real *gradient = d->ops->alloc(d, count * d->ops->real_bytes);
  run_gradient(d, network, gradient, batch);
  compare_gradient(&golden, d, network, gradient, tolerance);
  compare_priorities(&golden, d, batch, tolerance);
  d->ops->release(d, gradient);
  train_batch_destroy(d, batch);
  network_destroy(network);
  device_destroy(d);
  assert_false(golden_next(&golden)); /* there is one case; closes the file */
}

static void the_devices_compute_what_pytorch_computes(void **state) {
  (void)state;
  check("cpu", 1e-5);
  check("ref", 1e-5);
  emulated_cuda_use();
  check("cuda", 1e-5);
}

static void the_reference_in_double_is_closer(void **state) {
  (void)state;
  check("ref_double", 1e-12);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_devices_compute_what_pytorch_computes),
      cmocka_unit_test(the_reference_in_double_is_closer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
