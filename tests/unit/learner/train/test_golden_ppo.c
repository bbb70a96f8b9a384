/* Updates of PPO against PyTorch in float64 (tests/golden/algorithms/ppo.py): 4 epochs of 4
 * minibatches with the steps of Adam, with and without recurrence, updates that end early, and
 * several that move the scale of values.
 * Everything that goes in follows from a hash that ppo.py computes too. */
#include "tests/unit/learner/train/fixture.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/golden_numbers.h"
#include "learner/device/create.h"

enum { T = 6, N = 8, A = 3, H = 6, OBSERVATION = 4, ROWS = (T + 1) * N };
enum stream_number {
  STREAM_PARAMETERS,
  STREAM_OBSERVATION,
  STREAM_ACTION,
  STREAM_REWARD,
  STREAM_STATE,
  STREAM_BEHAVIOUR,
  STREAM_FLAGS
};

/* ---- what goes in */

static struct network *make_network(bool recurrent, bool box, bool scaled) {
  struct network_config config = {.network = recurrent ? "lstm" : "mlp",
                                  .inputs = {.row_stride = 16,
                                             .num_tensors = 1,
                                             .tensor = {{DTYPE_FLOAT32, OBSERVATION, 0}},
                                             .discrete = box ? 0 : A,
                                             .box = box ? A : 0},
                                  .head_size = A,
                                  .value_size = 1,
                                  .scale_value = scaled,
                                  .log_stds = box ? A : 0,
                                  .num_layers = 1,
                                  .hidden = {8},
                                  .lstm_size = recurrent ? H : 0,
                                  .activation = ACTIVATION_TANH};
  return fixture_network(&config);
}

static struct learner_options make_options(double target_kl) {
  struct learner_options options = fixture_options();
  options.agent = "ppo";
  options.seed = 11;
  options.algorithm = (struct algorithm_options){.unroll_length = T,
                                                 .batch_size = N,
                                                 .discount = 0.875,
                                                 .reward_scale = 0.75,
                                                 .reward_clip = 1,
                                                 .loss_reduction = "mean",
                                                 .actor_critic = {.lambda = 0.875,
                                                                  .baseline_cost = 0.5,
                                                                  .entropy_cost = 0x1p-6,
                                                                  .kl_cost = 0x1p-6,
                                                                  .target_entropy = -1,
                                                                  .entropy_adjustment_speed = 10},
                                                 .ppo = {.epochs = 4,
                                                         .minibatches = 4,
                                                         .clip_ratio = 0.25,
                                                         .value_clip = 0.25,
                                                         .target_kl = target_kl,
                                                         .normalize_advantages = true}};
  options.optimizer = (struct optimizer_options){.name = "adam",
                                                 .learning_rate = 0x1p-6,
                                                 .learning_rate_decay = "none",
                                                 .max_gradient_norm = 0.5,
                                                 .adam_beta1 = 0.875,
                                                 .adam_beta2 = 0.96875,
                                                 .adam_epsilon = 0x1p-17};
  return options;
}

/* The deviation falls with the number of inputs, in powers of two. */
static void set_parameters(struct update *update, const struct network *network) {
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  size_t index = 0;
  update_save(update);
  for (int j = 0; j < count; j++) {
    int inputs = parameter[j].rank == 2 ? parameter[j].shape[0] : 0;
    char name[64];
    snprintf(name, sizeof(name), "params/%s", parameter[j].name);
    float *data = fixture_item(update, name).data;
    if (strncmp(name, "params/value/", 13) == 0) continue; /* as they begin */
    golden_parameter(data, parameter[j].count, inputs, STREAM_PARAMETERS, &index);
  }
  update_load(update);
}

static struct train_batch *make_batch(struct device *d, const struct network *network) {
  int S = network_state_size(network);
  bool box = network_inputs(network)->box > 0;
  struct step_shape shape = discrete_shape(OBSERVATION * sizeof(float), S, 0);
  if (box) shape.box = true, shape.action_bytes = A * sizeof(float);
  struct host_batch host = host_batch_create(T, N, &shape);
  struct train_batch *b = host.batch;
  float *observation = (float *)(void *)b->observation, *state = (float *)b->state;
  for (size_t i = 0; i < ROWS * OBSERVATION; i++)
    observation[i] = golden_value(STREAM_OBSERVATION, i);
  for (size_t i = 0; i < ROWS; i++) {
    b->reward[i] = 2 * golden_value(STREAM_REWARD, i);
    b->statistics[i] = golden_value(STREAM_BEHAVIOUR, i) / 2 - (box ? 4 : 1);
    if (!box) ((int32_t *)b->action)[i] = (int32_t)(golden_hash(STREAM_ACTION, i) % A);
  }
  for (size_t i = 0; box && i < ROWS * A; i++)
    ((float *)b->action)[i] = golden_value(STREAM_ACTION, i);
  golden_flags(b->flags, ROWS, N, STREAM_FLAGS);
  for (size_t i = 0; i < (size_t)(N * S); i++) state[i] = golden_value(STREAM_STATE, i);
  struct train_batch *batch = train_batch_create(d, T, N, &shape);
  host_batch_write(&host, d, batch);
  host_batch_destroy(&host);
  return batch;
}

/* ---- comparison */

static void compare_parameters(const struct golden_cases *golden, const struct device *d,
                               const struct network *network, struct update *update,
                               double tolerance) {
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  double flat[MAX_P];
  fixture_saved(flat, update, "params", network);
  for (int j = 0; j < count; j++)
    golden_compare(golden, d, parameter[j].name, flat + parameter[j].offset, parameter[j].count,
                   tolerance);
}

static void compare_figures(const struct golden_cases *golden, const struct device *d,
                            struct update *update, const struct update_stats *stats,
                            double tolerance) {
  static const char *const names[] = {"loss/policy", "loss/baseline",        "policy/entropy",
                                      "policy/kl",   "policy/ratio_clipped", "train/value"};
  const double *expected = golden_numbers(golden, "means", 7);
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    double got = stats->losses.term[fixture_term("ppo", names[i])];
    if (!(fabs(got - expected[i]) <= tolerance))
      fail_msg("%s, %s: %s is %.15g, expected %.15g", golden->name, d->description, names[i], got,
               expected[i]);
  }
  double steps = (double)*(int64_t *)fixture_item(update, "update/steps").data;
  golden_compare(golden, d, "steps", &steps, 1, 0);
  golden_compare(golden, d, "norm", &stats->gradient_norm, 1, tolerance);
}

static void check_case(const struct golden_cases *golden, const char *device, double tolerance) {
  bool recurrent = strcmp(golden->name, "lstm") == 0 || strcmp(golden->name, "stopped") == 0;
  double limit = strcmp(golden->name, "stopped") == 0 ? 0.1
                 : strcmp(golden->name, "none") == 0  ? 0.0625
                                                      : 0;
  bool box = strcmp(golden->name, "box") == 0, scaled = strcmp(golden->name, "scaled") == 0;
  struct device *d = fixture_device(device);
  struct network *network = make_network(recurrent, box, scaled);
  struct learner_options options = make_options(limit);
  struct train_batch *batch = make_batch(d, network);
  struct update *update =
      fixture_update_by(d, network, &options, box ? &policy_normal : &policy_categorical);
  set_parameters(update, network);
  struct update_stats stats = fixture_step(update, batch, 0);
  for (int more = 0; scaled && more < 2; more++) stats = fixture_step(update, batch, 0);
  compare_parameters(golden, d, network, update, tolerance);
  compare_figures(golden, d, update, &stats, tolerance);
  update_destroy(update);
  train_batch_destroy(d, batch);
  network_destroy(network);
  device_destroy(d);
}

static void the_devices_update_as_pytorch_does(void **state) {
  (void)state;
  golden_each("tests/golden/algorithms/ppo.txt", 6, false, check_case);
}

static void the_reference_in_double_is_closer(void **state) {
  (void)state;
  golden_each("tests/golden/algorithms/ppo.txt", 6, true, check_case);
}

/* ---- what is not finite */

/* Behaviour of window 0 is no number. */
static void spoil(struct device *d, struct train_batch *batch) {
  float *statistics = check_alloc((size_t)T * N, sizeof(*statistics));
  d->ops->download_bytes(d, statistics, batch->statistics, (size_t)T * N * sizeof(float));
  device_finish(d);
  for (int t = 0; t < T; t++) statistics[t * N] = NAN;
  d->ops->upload_bytes(d, batch->statistics, statistics, (size_t)T * N * sizeof(float));
  device_finish(d);
  free(statistics);
}

struct spoilt {
  struct device *d;
  struct network *network;
  struct train_batch *batch;
  struct update *update;
};

static struct spoilt open_spoilt(const char *device, double target_kl) {
  struct spoilt s = {.d = fixture_device(device), .network = make_network(false, false, false)};
  struct learner_options options = make_options(target_kl);
  s.batch = make_batch(s.d, s.network);
  s.update = fixture_update(s.d, s.network, &options);
  set_parameters(s.update, s.network);
  spoil(s.d, s.batch);
  return s;
}

static void close_spoilt(struct spoilt *s) {
  update_destroy(s->update);
  train_batch_destroy(s->d, s->batch);
  network_destroy(s->network);
  device_destroy(s->d);
}

/* The window is in the second minibatch (shuffled(0) of ppo.py): one pass is applied. */
static void the_pass_that_fails_is_named(void **state) {
  (void)state;
  static const char *const devices[] = {"ref", "cpu", "cuda"};
  emulated_cuda_use();
  for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
    struct spoilt s = open_spoilt(devices[i], 0);
    struct update_stats stats;
    struct error error;
    update_start(s.update, s.batch, 0);
    assert_int_equal(update_finish(s.update, &stats, &error), STATUS_CORRUPT);
    if (!strstr(error.text, "the parameters are as before its pass 2.")) fail_msg("%s", error.text);
    update_save(s.update);
    assert_int_equal(*(int64_t *)fixture_item(s.update, "update/steps").data, 1);
    assert_int_equal(update_version(s.update), 0);
    close_spoilt(&s);
  }
}

/* As "none": the first pass ends the update, so that those behind it are without effect, finite or
 * not, in this update and in the next. */
static void what_has_no_effect_may_fail(void **state) {
  (void)state;
  static const char *const devices[] = {"ref", "cpu", "cuda"};
  emulated_cuda_use();
  for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
    struct spoilt s = open_spoilt(devices[i], 0.0625);
    for (int k = 0; k < 4; k++) {
      struct update_stats stats;
      struct error error;
      update_start(s.update, s.batch, 0);
      if (update_finish(s.update, &stats, &error) != STATUS_OK) fail_msg("%s", error.text);
    }
    update_save(s.update);
    assert_int_equal(*(int64_t *)fixture_item(s.update, "update/steps").data, 0);
    close_spoilt(&s);
  }
}

/* ---- what a user may get wrong */

static void minibatches_divide_the_windows(void **state) {
  (void)state;
  struct device *d = fixture_device("ref");
  struct network *network = make_network(false, false, false);
  struct learner_options options = make_options(0);
  struct update *update;
  struct error error;
  options.algorithm.ppo.minibatches = 3;
  struct update_config config = run_options_of_update(&options);
  config.policy = &policy_categorical;
  assert_int_equal(update_create(&update, d, network, &algorithm_ppo, &config, &error),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "--minibatches=3 does not divide the 8 windows of a batch"));

  static const struct {
    int windows, minibatches;
  } chosen[] = {{8, 4}, {6, 3}, {5, 1}, {2, 2}, {1, 1}, {64, 4}};
  options.learners = 2; /* a loss must not end the run by what fitted before */
  assert_int_equal(run_options_of_update(&options).algorithm.ppo.minibatches, 2);
  options.algorithm.ppo.minibatches = 0;
  for (size_t i = 0; i < sizeof(chosen) / sizeof(chosen[0]); i++) {
    struct passes passes;
    assert_int_equal(algorithm_ppo.passes(&passes, &options.algorithm, chosen[i].windows, &error),
                     STATUS_OK);
    assert_int_equal(passes.minibatches, chosen[i].minibatches);
    assert_int_equal(passes.epochs, 4);
  }
  network_destroy(network);
  device_destroy(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_devices_update_as_pytorch_does),
      cmocka_unit_test(the_reference_in_double_is_closer),
      cmocka_unit_test(the_pass_that_fails_is_named),
      cmocka_unit_test(what_has_no_effect_may_fail),
      cmocka_unit_test(minibatches_divide_the_windows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
