/* Updates of SAC against PyTorch in float64 (tests/golden/algorithms/sac.py): both critics, the
 * policy and the temperature, with the steps of Adam, and the averaged targets; also with scaled
 * observations. Everything that goes in follows from a hash that sac.py computes too. And that they
 * go on bit for bit from a checkpoint, and are the same when a device plays them from a recording.
 */
#include "tests/unit/learner/train/fixture.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/golden_numbers.h"
#include "learner/device/create.h"

enum { T = 3, N = 8, A = 2, OBSERVATION = 4, ROWS = (T + 1) * N, ITERATIONS = 3 };
enum stream_number {
  STREAM_PARAMETERS,
  STREAM_OBSERVATION,
  STREAM_ACTION,
  STREAM_REWARD,
  STREAM_FLAGS,
  STREAM_TARGETS
};

static struct network *make_network(const char *kind, bool scaled) {
  struct network_config config = {.network = kind,
                                  .inputs = {.row_stride = 16,
                                             .num_tensors = 1,
                                             .tensor = {{DTYPE_FLOAT32, OBSERVATION, 0}},
                                             .box = A},
                                  .head_size = 2 * A,
                                  .normalize = scaled,
                                  .num_layers = 1,
                                  .hidden = {8},
                                  .lstm_size = strcmp(kind, "lstm") == 0 ? 4 : 0,
                                  .activation = ACTIVATION_TANH};
  return fixture_network(&config);
}

static struct learner_options make_options(double temperature) {
  struct learner_options options = fixture_options();
  options.agent = "sac";
  options.algorithm.unroll_length = T;
  options.algorithm.batch_size = N;
  options.algorithm.discount = 0.875;
  options.algorithm.reward_clip = 1;
  options.algorithm.sac =
      (struct sac_options){.polyak = 0.125, .temperature = temperature, .entropy_per_action = -0.5};
  options.optimizer.learning_rate = 0x1p-6;
  options.optimizer.max_gradient_norm = 0.5;
  options.optimizer.adam_beta1 = 0.875;
  options.optimizer.adam_beta2 = 0.96875;
  options.optimizer.adam_epsilon = 0x1p-17;
  return options;
}

static bool begins(const char *name, const char *with) {
  return strncmp(name, with, strlen(with)) == 0;
}

/* But for statistics, and a temperature that is not learned. */
static bool is_given(const char *name, bool fixed) {
  return !strstr(name, "observation/") && !(fixed && strstr(name, "log_temperature"));
}

static void set_parameters(struct update *update, bool fixed) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  size_t of_params = 0, of_targets = 0;
  update_save(update);
  int count = update_items(update, items);
  for (int i = 0; i < count; i++) {
    bool target = begins(items[i].name, "target/");
    bool online = begins(items[i].name, "params/") || begins(items[i].name, "own/");
    if (!is_given(items[i].name, fixed) || !(target || online)) continue;
    int inputs = items[i].rank == 2 ? (int)items[i].shape[0] : 0;
    size_t n = (size_t)items[i].shape[0] * (size_t)(items[i].rank == 2 ? items[i].shape[1] : 1);
    golden_parameter((float *)items[i].data, n, inputs, target ? STREAM_TARGETS : STREAM_PARAMETERS,
                     target ? &of_targets : &of_params);
  }
  update_load(update);
}

static struct train_batch *make_batch(struct device *d) {
  struct step_shape shape = discrete_shape(OBSERVATION * sizeof(float), 0, 0);
  shape.box = true;
  shape.action_bytes = A * sizeof(float);
  struct host_batch host = host_batch_create(T, N, &shape);
  struct train_batch *b = host.batch;
  float *observation = (float *)(void *)b->observation, *action = b->action;
  for (size_t i = 0; i < ROWS * OBSERVATION; i++)
    observation[i] = golden_value(STREAM_OBSERVATION, i);
  for (size_t i = 0; i < ROWS; i++) b->reward[i] = 2 * golden_value(STREAM_REWARD, i);
  for (size_t i = 0; i < ROWS * A; i++) action[i] = golden_value(STREAM_ACTION, i);
  golden_flags(b->flags, ROWS, N, STREAM_FLAGS);
  struct train_batch *batch = train_batch_create(d, T, N, &shape);
  host_batch_write(&host, d, batch);
  host_batch_destroy(&host);
  return batch;
}

/* ---- comparison */

static void compare_item(const struct golden_cases *golden, const struct device *d,
                         const struct checkpoint_item *item, const char *name, double tolerance) {
  double got[256];
  size_t n = (size_t)item->shape[0] * (size_t)(item->rank == 2 ? item->shape[1] : 1);
  assert_true(n <= 256);
  for (size_t i = 0; i < n; i++) got[i] = (double)((const float *)item->data)[i];
  golden_compare(golden, d, name, got, n, tolerance);
}

/* All parameters, and the targets of the critics; returns how many arrays those were. */
static int compare_state(const struct golden_cases *golden, const struct device *d,
                         struct update *update, double tolerance) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  int compared = 0;
  update_save(update);
  int count = update_items(update, items);
  for (int i = 0; i < count; i++) {
    const char *name = items[i].name;
    bool online = begins(name, "params/") || begins(name, "own/");
    bool is_count = strstr(name, "observation/count") != NULL;
    const char *statistic = strstr(name, "observation/");
    if (is_count || !(online || begins(name, "target/critic"))) continue;
    compare_item(golden, d, &items[i],
                 statistic                 ? statistic
                 : begins(name, "target/") ? name
                                           : strchr(name, '/') + 1,
                 tolerance);
    compared++;
  }
  return compared;
}

static void compare_figures(const struct golden_cases *golden, const struct device *d,
                            const struct update_stats *stats, double tolerance) {
  static const char *const names[] = {"loss/q",  "loss/policy", NULL,          "policy/temperature",
                                      "q/value", "q/target",    "train/reward"};
  double got[sizeof(names) / sizeof(names[0])];
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    got[i] = names[i] ? stats->losses.term[fixture_term("sac", names[i])] : stats->losses.entropy;
  golden_compare(golden, d, "means", got, sizeof(names) / sizeof(names[0]), tolerance);
  golden_compare(golden, d, "norm", &stats->gradient_norm, 1, tolerance);
}

static void check_case(const struct golden_cases *golden, const char *device, double tolerance) {
  bool fixed = strcmp(golden->name, "fixed") == 0, scaled = strcmp(golden->name, "scaled") == 0;
  struct device *d = fixture_device(device);
  struct network *network = make_network("mlp", scaled);
  struct learner_options options = make_options(fixed ? 0.25 : 0);
  struct train_batch *batch = make_batch(d);
  struct update *update = fixture_update(d, network, &options);
  set_parameters(update, fixed);
  struct update_stats stats;
  for (int i = 0; i < ITERATIONS; i++) stats = fixture_step(update, batch, 0);
  assert_int_equal(compare_state(golden, d, update, tolerance), scaled ? 31 : 21);
  compare_figures(golden, d, &stats, tolerance);
  update_destroy(update);
  train_batch_destroy(d, batch);
  network_destroy(network);
  device_destroy(d);
}

static void the_devices_update_as_pytorch_does(void **state) {
  (void)state;
  golden_each("tests/golden/algorithms/sac.txt", 3, false, check_case);
}

static void the_reference_in_double_is_closer(void **state) {
  (void)state;
  golden_each("tests/golden/algorithms/sac.txt", 3, true, check_case);
}

/* ---- the same bits */

struct world {
  struct device *d;
  struct device_ops ops; /* the device's table, which may lack recordings */
  struct network *network;
  struct train_batch *batch;
  struct update *update;
};

static void open_world(struct world *w, const char *device, bool records) {
  w->d = fixture_device(device);
  w->ops = *w->d->ops;
  w->d->ops = &w->ops;
  if (!records) w->ops.record = NULL;
  w->network = make_network("mlp", true);
  w->batch = make_batch(w->d);
  struct learner_options options = make_options(0);
  w->update = fixture_update(w->d, w->network, &options);
  set_parameters(w->update, false);
}

static void close_world(struct world *w) {
  update_destroy(w->update);
  train_batch_destroy(w->d, w->batch);
  network_destroy(w->network);
  device_destroy(w->d);
}

static void train(struct world *w, int updates) {
  for (int i = 0; i < updates; i++) fixture_step(w->update, w->batch, 0);
}

static void a_resumed_run_is_the_same_run(void **state) {
  (void)state;
  struct world whole, first, second;
  open_world(&whole, "cpu", false);
  open_world(&first, "cpu", false);
  open_world(&second, "cpu", false);
  train(&whole, 10);
  train(&first, 4);
  fixture_match_states(first.update, second.update, true);
  train(&second, 6);
  fixture_match_states(whole.update, second.update, false);
  close_world(&whole);
  close_world(&first);
  close_world(&second);
}

static void a_recording_is_the_same_update(void **state) {
  (void)state;
  struct world direct, played;
  emulated_cuda_use();
  open_world(&direct, "cuda", false);
  open_world(&played, "cuda", true);
  train(&direct, 6);
  train(&played, 6);
  fixture_match_states(direct.update, played.update, false);
  close_world(&direct);
  close_world(&played);
}

/* A target that is not a number ends the run before anything is changed. */
static void what_is_not_finite_changes_nothing(void **state) {
  (void)state;
  static const char *const devices[] = {"ref", "cpu", "cuda"};
  emulated_cuda_use();
  for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
    struct world w, before;
    struct update_stats stats;
    struct error error;
    const float infinite = INFINITY;
    open_world(&w, devices[i], true);
    open_world(&before, devices[i], true);
    float *target = fixture_item(w.update, "target/critic_2/head/b").data;
    update_save(w.update);
    float kept = *target;
    *target = -infinite;
    update_load(w.update);
    update_start(w.update, w.batch, 0);
    assert_int_equal(update_finish(w.update, &stats, &error), STATUS_CORRUPT);
    assert_non_null(strstr(error.text, "mean target"));
    update_save(w.update);
    assert_true(*target == -infinite);
    *target = kept;
    update_load(w.update);
    fixture_match_states(before.update, w.update, false);
    close_world(&w);
    close_world(&before);
  }
}

/* ---- what a user may get wrong */

static void critics_are_of_vectors(void **state) {
  (void)state;
  struct device *d = fixture_device("ref");
  struct network *network = make_network("lstm", false);
  struct learner_options options = make_options(0);
  struct update_config config = run_options_of_update(&options);
  struct update *update;
  struct error error;
  config.policy = &policy_squashed_normal;
  assert_int_equal(update_create(&update, d, network, &algorithm_sac, &config, &error),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "--network=lstm: sac has critics of vectors alone"));
  network_destroy(network);
  device_destroy(d);
}

/* A box of which one number has no bounds that are a scale. */
static void a_box_without_bounds_is_not_squashed(void **state) {
  (void)state;
  struct space space = {.box = 2, .low = {-1, -2}, .high = {1, 2}};
  assert_int_equal(policy_squashed_normal.head_size(&space), 4);
  space.high[1] = INFINITY;
  assert_int_equal(policy_squashed_normal.head_size(&space), 0);
  space.high[1] = -2;
  assert_int_equal(policy_squashed_normal.head_size(&space), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_devices_update_as_pytorch_does),
      cmocka_unit_test(the_reference_in_double_is_closer),
      cmocka_unit_test(a_resumed_run_is_the_same_run),
      cmocka_unit_test(a_recording_is_the_same_update),
      cmocka_unit_test(what_is_not_finite_changes_nothing),
      cmocka_unit_test(critics_are_of_vectors),
      cmocka_unit_test(a_box_without_bounds_is_not_squashed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
