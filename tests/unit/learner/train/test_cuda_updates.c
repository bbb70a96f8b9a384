/* Updates of every algorithm on the CUDA device: losses and parameters are those of the reference
 * device in double, and the same once more, bit for bit. */
#include "common/base/check.h"
#include "tests/unit/learner/train/fixture.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/races.h"
#include "learner/device/create.h"
#include "learner/device/shared.h"

enum { UPDATES = TESTING_SLOWLY ? 2 : 4, ATOMS = 5 };

struct kind {
  char *agent;
  const char *network;
  char *optimizer, *reduction;
  int atoms, burn_in; /* atoms 0: a policy and a value, not values of actions */
  double huber;
  bool normalizes;
};

static const struct kind kinds[] = {
    {.agent = "vtrace", .network = "mlp", .optimizer = "rmsprop", .reduction = "mean"},
    {.agent = "vtrace", .network = "lstm", .optimizer = "adam", .reduction = "sum_over_time"},
    {.agent = "a2c", .network = "mlp", .optimizer = "adam", .reduction = "mean"},
    {.agent = "a2c", .network = "lstm", .optimizer = "rmsprop", .reduction = "sum_over_time"},
    {"ppo", "mlp", "adam", "mean", .normalizes = true},
    {.agent = "ppo", .network = "lstm", .optimizer = "rmsprop", .reduction = "sum_over_time"},
    {"dqn", "mlp", "adam", "mean", 1, 0, 1, false},
    {"rainbow", "mlp", "adam", "mean", ATOMS, 0, 0, false},
    {"r2d2", "lstm", "adam", "sum_over_time", 1, 3, 0, true},
};

struct world {
  struct network_config config;
  struct network *network;
  struct device *device;
  struct train_batch *batch;
  struct learner_options options;
  struct update *update;
};

static void read_values(struct world *w, const struct kind *kind) {
  int Z = kind->atoms;
  bool rainbow = Z > 1;
  w->config.values =
      (struct action_values){.A = ACTIONS, .Z = Z, .dueling = true, .low = -3, .high = 3};
  w->config.head_size = ACTIONS * Z;
  w->config.value_size = Z;
  w->config.noisy = w->options.noisy = rainbow;
  w->options.algorithm.q_learning.n_steps = 2;
  w->options.algorithm.q_learning.double_q = w->options.algorithm.q_learning.partial_returns = true;
  w->options.algorithm.q_learning.target_update = 2;
  w->options.algorithm.q_learning.priority_eta = 0.9;
  w->options.algorithm.q_learning.value_rescaling = kind->burn_in ? 1e-3 : 0;
}

static void open_world(struct world *w, const struct kind *kind, const char *device) {
  *w = (struct world){.config = fixture_config(kind->network, 1, ACTIVATION_TANH),
                      .device = fixture_device(device),
                      .options = fixture_options()};
  w->config.normalize = kind->normalizes;
  w->config.scale_value = kind->normalizes && !kind->atoms;
  w->options.agent = kind->agent;
  w->options.optimizer.name = kind->optimizer;
  w->options.algorithm.loss_reduction = kind->reduction;
  w->options.algorithm.q_learning.burn_in = kind->burn_in;
  w->options.algorithm.q_learning.huber = kind->huber;
  w->options.optimizer.max_gradient_norm = 0.01;
  if (kind->atoms) read_values(w, kind);
  w->network = fixture_network(&w->config);
  w->batch = fixture_batch(w->device, w->network, kind->burn_in + UNROLL, COLUMNS, 5);
  float *weight = w->batch->weight.host;
  for (int n = 0; n < COLUMNS; n++) weight[n] = (float)(n + 1) / COLUMNS;
  device_shared_upload(w->device, &w->batch->weight);
  w->update = fixture_update(w->device, w->network, &w->options);
}

static void close_world(struct world *w) {
  update_destroy(w->update);
  train_batch_destroy(w->device, w->batch);
  device_destroy(w->device);
  network_destroy(w->network);
}

struct outcome {
  double loss[UPDATES], norm[UPDATES], parameters[MAX_P], priority[COLUMNS];
};

static struct outcome *outcome_on(const char *device, const struct kind *kind) {
  struct world w;
  struct outcome *outcome = check_alloc(1, sizeof(*outcome));
  open_world(&w, kind, device);
  assert_true(network_num_parameters(w.network) <= MAX_P);
  for (int u = 0; u < UPDATES; u++) {
    struct update_stats stats = fixture_step(w.update, w.batch, 0);
    outcome->loss[u] = stats.losses.total;
    outcome->norm[u] = stats.gradient_norm;
  }
  fixture_saved(outcome->parameters, w.update, "params", w.network);
  for (int n = 0; kind->atoms && n < COLUMNS; n++)
    outcome->priority[n] = ((const float *)w.batch->priority.host)[n];
  close_world(&w);
  return outcome;
}

static void compare(const char *what, const struct kind *kind, const double *got,
                    const double *expected, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!(fabs(got[i] - expected[i]) <= 1e-4 * (1 + fabs(expected[i]))))
      fail_msg("%s, %s: %s %zu is %.9g, expected %.9g", kind->agent, kind->network, what, i, got[i],
               expected[i]);
}

static void every_algorithm_computes_what_the_reference_does(void **state) {
  (void)state;
  emulated_cuda_use();
  for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
    struct outcome *cuda = outcome_on("cuda", &kinds[k]),
                   *ref = outcome_on("ref_double", &kinds[k]);
    assert_true(ref->norm[0] > 0.01); /* it is clipped */
    compare("loss", &kinds[k], cuda->loss, ref->loss, UPDATES);
    compare("gradient norm", &kinds[k], cuda->norm, ref->norm, UPDATES);
    compare("parameter", &kinds[k], cuda->parameters, ref->parameters, MAX_P);
    compare("priority", &kinds[k], cuda->priority, ref->priority, COLUMNS);
    free(cuda);
    free(ref);
  }
}

static void the_same_updates_give_the_same_bits(void **state) {
  (void)state;
  emulated_cuda_use();
  if (TESTING_FOR_RACES) return; /* in the same updates */
  for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
    struct outcome *first = outcome_on("cuda", &kinds[k]), *second = outcome_on("cuda", &kinds[k]);
    assert_memory_equal(first, second, sizeof(*first));
    free(first);
    free(second);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_algorithm_computes_what_the_reference_does),
      cmocka_unit_test(the_same_updates_give_the_same_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
