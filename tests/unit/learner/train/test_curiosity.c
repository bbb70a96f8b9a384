/* Curiosity: updates with random network distillation against PyTorch in float64
 * (tests/golden/algorithms/curiosity.py), of a2c and ppo; the predictor's gradient against finite
 * differences; that updates go on bit for bit from a checkpoint and are the
 * same from a recording; what is refused. Everything that goes in follows from a hash. */
#include "learner/device/create.h"
#include "tests/unit/learner/train/fixture.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/golden_numbers.h"
#include "tests/unit/support/races.h"

enum { T = 6, N = 8, A = 3, OBSERVATION = 4, ROWS = (T + 1) * N, SAMPLES = 16 };
enum stream_number {
  STREAM_PARAMETERS,
  STREAM_OBSERVATION,
  STREAM_ACTION,
  STREAM_REWARD,
  STREAM_STATE,
  STREAM_BEHAVIOUR,
  STREAM_FLAGS
};

static struct network *make_network(const char *kind, bool scaled) {
  struct network_config config = {.network = kind,
                                  .inputs = {.row_stride = 16,
                                             .num_tensors = 1,
                                             .tensor = {{DTYPE_FLOAT32, OBSERVATION, 0}},
                                             .discrete = A},
                                  .head_size = A,
                                  .value_size = 1,
                                  .scale_value = scaled,
                                  .num_layers = 1,
                                  .hidden = {8},
                                  .lstm_size = strcmp(kind, "lstm") == 0 ? 4 : 0,
                                  .activation = ACTIVATION_TANH};
  return fixture_network(&config);
}

static struct learner_options make_options(char *agent) {
  struct learner_options options = fixture_options();
  options.agent = agent;
  options.algorithm = (struct algorithm_options){.unroll_length = T,
                                                 .batch_size = N,
                                                 .discount = 0.875,
                                                 .reward_scale = 0.75,
                                                 .reward_clip = 1,
                                                 .loss_reduction = "mean",
                                                 .actor_critic = {.lambda = 0.875,
                                                                  .rho_clip = 1,
                                                                  .c_clip = 1,
                                                                  .pg_rho_clip = 1,
                                                                  .baseline_cost = 0.5,
                                                                  .entropy_cost = 0x1p-6,
                                                                  .kl_cost = 0x1p-6,
                                                                  .target_entropy = -1,
                                                                  .entropy_adjustment_speed = 10},
                                                 .curiosity = {.kind = "rnd",
                                                               .intrinsic_discount = 0.96875,
                                                               .intrinsic_weight = 1,
                                                               .extrinsic_weight = 2,
                                                               .predictor_share = 0.5},
                                                 .ppo = {.epochs = 4,
                                                         .minibatches = 4,
                                                         .clip_ratio = 0.25,
                                                         .value_clip = 0.25,
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

static bool begins(const char *name, const char *with) {
  return strncmp(name, with, strlen(with)) == 0;
}

static size_t numbers_of(const struct checkpoint_item *item) {
  return (size_t)item->shape[0] * (size_t)(item->rank == 2 ? item->shape[1] : 1);
}

static bool is_statistic(const char *name) {
  return strstr(name, "observation/") || strstr(name, "value/count") ||
         strstr(name, "value/mean") || strstr(name, "value/deviation");
}

/* All but the statistics. */
static void set_parameters(struct update *update) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  size_t index = 0;
  update_save(update);
  int count = update_items(update, items);
  for (int i = 0; i < count; i++) {
    const struct checkpoint_item *item = &items[i];
    if (!(begins(item->name, "params/") || begins(item->name, "own/"))) continue;
    if (is_statistic(item->name)) continue;
    int inputs = item->rank == 2 ? (int)item->shape[0] : 0;
    golden_parameter((float *)item->data, numbers_of(item), inputs, STREAM_PARAMETERS, &index);
  }
  update_load(update);
}

static struct train_batch *make_batch(struct device *d, int state_size) {
  struct step_shape shape = discrete_shape(OBSERVATION * sizeof(float), state_size, 0);
  struct host_batch host = host_batch_create(T, N, &shape);
  struct train_batch *b = host.batch;
  float *observation = (float *)(void *)b->observation;
  for (size_t i = 0; i < ROWS * OBSERVATION; i++)
    observation[i] = golden_value(STREAM_OBSERVATION, i) * (i % 16 == 0 ? 16 : 1);
  for (size_t i = 0; i < ROWS; i++) {
    b->reward[i] = 2 * golden_value(STREAM_REWARD, i);
    b->statistics[i] = golden_value(STREAM_BEHAVIOUR, i) / 2 - 1;
    ((int32_t *)b->action)[i] = (int32_t)(golden_hash(STREAM_ACTION, i) % A);
  }
  golden_flags(b->flags, ROWS, N, STREAM_FLAGS);
  struct train_batch *batch = train_batch_create(d, T, N, &shape);
  host_batch_write(&host, d, batch);
  host_batch_destroy(&host);
  return batch;
}

struct world {
  struct device *d;
  struct device_ops ops; /* the device's table, which may lack recordings */
  struct network *network;
  struct train_batch *batch;
  struct update *update;
};

static void open_world(struct world *w, const char *device, const char *kind,
                       struct learner_options *options, bool records) {
  w->d = fixture_device(device);
  w->ops = *w->d->ops;
  w->d->ops = &w->ops;
  if (!records) w->ops.record = NULL;
  w->network = make_network(kind, strcmp(options->agent, "ppo") == 0);
  w->batch = make_batch(w->d, network_state_size(w->network));
  w->update = fixture_update(w->d, w->network, options);
  set_parameters(w->update);
}

static void close_world(struct world *w) {
  update_destroy(w->update);
  train_batch_destroy(w->d, w->batch);
  network_destroy(w->network);
  device_destroy(w->d);
}

static double figure(const char *agent, const struct update_stats *stats, const char *name) {
  return stats->losses.term[fixture_term(agent, name)];
}

/* ---- against PyTorch */

static void compare_item(const struct golden_cases *golden, const struct device *d,
                         const struct checkpoint_item *item, const char *name, double tolerance) {
  const float *x = item->data;
  double got[1 + SAMPLES] = {0};
  size_t n = numbers_of(item);
  for (size_t i = 0; i < n; i++) got[0] += (double)x[i] * (double)x[i] / (double)n;
  got[0] = sqrt(got[0]);
  for (size_t k = 0; k < SAMPLES; k++) got[1 + k] = (double)x[k * n / SAMPLES];
  for (size_t i = 0; n <= SAMPLES && i < n; i++) got[i] = (double)x[i];
  golden_compare(golden, d, name, got, n <= SAMPLES ? n : 1 + SAMPLES, tolerance);
}

static bool is_compared(const char *name, bool scaled) {
  if (begins(name, "params/")) return scaled || !is_statistic(name);
  return begins(name, "own/") && !begins(name, "own/rnd_target/") &&
         (!strstr(name, "observation/") || begins(name, "own/rnd_predictor/observation/")) &&
         !strstr(name, "observation/count");
}

static int compare_state(const struct golden_cases *golden, const struct world *w, bool scaled,
                         double tolerance) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  int compared = 0;
  update_save(w->update);
  int count = update_items(w->update, items);
  for (int i = 0; i < count; i++) {
    const char *name = items[i].name, *statistic = strstr(name, "observation/");
    if (!is_compared(name, scaled)) continue;
    compare_item(golden, w->d, &items[i], statistic ? statistic : strchr(name, '/') + 1, tolerance);
    compared++;
  }
  return compared;
}

static void check_case(const struct golden_cases *golden, const char *device, double tolerance) {
  static const char *const names[] = {"loss/policy", "loss/baseline", "train/intrinsic_reward",
                                      "loss/predictor", "loss/intrinsic_value"};
  bool ppo = strcmp(golden->name, "ppo") == 0;
  struct learner_options options = make_options(ppo ? "ppo" : "a2c");
  struct world w;
  struct update_stats stats = {0};
  double means[5];
  open_world(&w, device, "mlp", &options, true);
  for (int i = 0; i < (ppo ? 2 : 3); i++) stats = fixture_step(w.update, w.batch, 0);
  for (size_t i = 0; i < 5; i++) means[i] = figure(options.agent, &stats, names[i]);
  golden_compare(golden, w.d, "means", means, 5, tolerance);
  golden_compare(golden, w.d, "norm", &stats.gradient_norm, 1, tolerance);
  assert_int_equal(compare_state(golden, &w, ppo, tolerance), ppo ? 24 : 21);
  close_world(&w);
}

static void the_devices_update_as_pytorch_does(void **state) {
  (void)state;
  golden_each("tests/golden/algorithms/curiosity.txt", 2, false, check_case);
}

static void the_reference_in_double_is_closer(void **state) {
  (void)state;
  golden_each("tests/golden/algorithms/curiosity.txt", 2, true, check_case);
}

/* ---- finite differences */

/* With beta1 = 0 Adam's m is the gradient. No step moves anything: what is new stays. */
static double predictor_loss(struct world *w) {
  struct update_stats stats = fixture_step(w->update, w->batch, 0);
  return figure("a2c", &stats, "loss/predictor");
}

/* number: of the array, as the device has it. */
static void check_slope(struct world *w, double *number, double gradient, double largest,
                        const char *name) {
  const double e = 1e-3, kept = *number;
  double loss[2];
  for (int side = 0; side < 2; side++) {
    *number = kept + (side ? e : -e);
    loss[side] = predictor_loss(w);
  }
  *number = kept;
  double slope = (loss[1] - loss[0]) / (2 * e);
  if (!(fabs(slope - gradient) <= 1e-3 * largest))
    fail_msg("%s: finite difference %.10g, gradient %.10g", name, slope, gradient);
}

static void the_predictors_gradient_matches_finite_differences(void **state) {
  (void)state;
  struct learner_options options = make_options("a2c");
  struct world w;
  options.optimizer.adam_beta1 = 0;
  options.optimizer.max_gradient_norm = 0;
  options.optimizer.learning_rate = 0;
  options.algorithm.curiosity.predictor_share = 1; /* the same steps in every update */
  open_world(&w, "ref_double", "mlp", &options, false);
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  int count = update_items(w.update, items), checked = 0;
  double *params = (double *)(uintptr_t)update_parameters(w.update);
  for (int i = 0; i < 5; i++) predictor_loss(&w);
  update_save(w.update);
  size_t at = 0;
  for (int i = 0; i < count; i++) {
    size_t n = numbers_of(&items[i]);
    if (!begins(items[i].name, "params/") && !begins(items[i].name, "own/")) continue;
    if (begins(items[i].name, "own/rnd_predictor/") && !is_statistic(items[i].name)) {
      char name[64];
      double gradient[4], largest = 0;
      snprintf(name, sizeof(name), "adam/m/%s", strchr(items[i].name, '/') + 1);
      const float *all = fixture_item(w.update, name).data;
      for (size_t k = 0; k < n; k++) largest = fmax(largest, fabs((double)all[k]));
      for (size_t k = 0; k < 4; k++) gradient[k] = (double)all[k * n / 4];
      for (size_t k = 0; k < 4; k++, checked++)
        check_slope(&w, params + at + k * n / 4, gradient[k], largest, name);
    }
    at += n;
  }
  assert_int_equal(checked, 6 * 4);
  close_world(&w);
}

/* ---- the same bits */

static void train(struct world *w, int updates) {
  for (int i = 0; i < updates; i++) fixture_step(w->update, w->batch, 0);
}

static char *const agents[] = {"vtrace", "a2c", "ppo"};
enum { AGENTS = sizeof(agents) / sizeof(agents[0]) };

static void a_resumed_run_is_the_same_run(void **state) {
  (void)state;
  for (int i = 0; i < AGENTS; i++) {
    struct learner_options options = make_options(agents[i]);
    struct world whole, first, second;
    open_world(&whole, "cpu", "lstm", &options, false);
    open_world(&first, "cpu", "lstm", &options, false);
    open_world(&second, "cpu", "lstm", &options, false);
    train(&whole, 10);
    train(&first, 4);
    fixture_match_states(first.update, second.update, true);
    train(&second, 6);
    fixture_match_states(whole.update, second.update, false);
    close_world(&whole);
    close_world(&first);
    close_world(&second);
  }
}

static void a_recording_is_the_same_update(void **state) {
  (void)state;
  emulated_cuda_use();
  for (int i = 0; i < AGENTS - TESTING_SLOWLY; i++) { /* ppo's passes take longest */
    struct learner_options options = make_options(agents[i]);
    struct world direct, played;
    open_world(&direct, "cuda", "mlp", &options, false);
    open_world(&played, "cuda", "mlp", &options, true);
    train(&direct, 4);
    train(&played, 4);
    fixture_match_states(direct.update, played.update, false);
    close_world(&direct);
    close_world(&played);
  }
}

/* Nor the statistics of observations and targets. */
static void what_is_not_finite_changes_nothing(void **state) {
  (void)state;
  for (int i = 0; i < AGENTS; i++) {
    struct learner_options options = make_options(agents[i]);
    struct world w, before;
    struct update_stats stats;
    struct error error;
    open_world(&w, "cpu", "mlp", &options, false);
    open_world(&before, "cpu", "mlp", &options, false);
    update_save(w.update);
    float *bias = fixture_item(w.update, "own/rnd_target/head/b").data, kept = *bias;
    *bias = INFINITY;
    update_load(w.update);
    update_start(w.update, w.batch, 0);
    assert_int_equal(update_finish(w.update, &stats, &error), STATUS_CORRUPT);
    update_save(w.update);
    *bias = kept;
    update_load(w.update);
    fixture_match_states(before.update, w.update, false);
    close_world(&w);
    close_world(&before);
  }
}

/* Observations that are met again and again are not new any more, and one that is far from all of
 * them is. */
static void what_is_known_is_not_new(void **state) {
  (void)state;
  for (int i = 0; i < (TESTING_SLOWLY ? 1 : AGENTS); i++) {
    struct learner_options options = make_options(agents[i]);
    struct world w;
    options.optimizer.learning_rate = 1e-3;
    open_world(&w, "cpu", "mlp", &options, false);
    train(&w, 2); /* statistics of the observations */
    struct update_stats stats = fixture_step(w.update, w.batch, 0);
    double first = figure(agents[i], &stats, "loss/predictor");
    train(&w, 200);
    stats = fixture_step(w.update, w.batch, 0);
    double last = figure(agents[i], &stats, "loss/predictor");
    if (!(last < 0.05 * first))
      fail_msg("%s: the predictor's loss goes from %g to %g", agents[i], first, last);
    close_world(&w);
  }
}

/* ---- what a user may get wrong */

static void refuse(const char *network, int numbers, const struct curiosity_options *own,
                   const char *message) {
  struct network_config config = {
      .network = network, .inputs = {.num_tensors = 1, .tensor = {{DTYPE_FLOAT32, numbers, 0}}}};
  struct algorithm_options options = {.curiosity = *own};
  for (int i = 0; i < AGENTS; i++) {
    struct error error = {""};
    const struct algorithm *algorithm = algorithms_find(agents[i])->algorithm;
    enum status expected = message ? STATUS_INVALID : STATUS_OK;
    assert_int_equal(algorithm->check(&config, &options, &error), expected);
    if (message && !strstr(error.text, message)) fail_msg("%s", error.text);
  }
}

static void what_is_impossible_is_refused(void **state) {
  (void)state;
  const struct curiosity_options on = {.kind = "rnd", .intrinsic_weight = 1, .extrinsic_weight = 2},
                                 off = {.kind = "none"}, nothing = {.kind = "rnd"};
  refuse("mlp", 4, &on, NULL);
  refuse("lstm", 1 << 16, &on, NULL);
  refuse("nature", 4, &off, NULL);
  refuse("nature", 4, &on, "--network=nature is for images: give mlp or lstm");
  refuse("impala_deep", 4, &on, "--network=impala_deep is for images");
  refuse("mlp", (1 << 16) + 1, &on, "an observation of 65537 numbers, there may be 65536");
  refuse("mlp", 4, &nothing, "no reward is left to learn from");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_devices_update_as_pytorch_does),
      cmocka_unit_test(the_reference_in_double_is_closer),
      cmocka_unit_test(the_predictors_gradient_matches_finite_differences),
      cmocka_unit_test(a_resumed_run_is_the_same_run),
      cmocka_unit_test(a_recording_is_the_same_update),
      cmocka_unit_test(what_is_not_finite_changes_nothing),
      cmocka_unit_test(what_is_known_is_not_new),
      cmocka_unit_test(what_is_impossible_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
