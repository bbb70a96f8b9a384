/* The gradient of the whole loss against central finite differences, in double: every parameter of
 * every network, with every algorithm. The loss is the tests' own (plain forward, targets from
 * their definition), so forward, losses and backward are checked at once. */
#include "tests/unit/learner/train/fixture.h"
#include "learner/device/create.h"

static const struct {
  const char *network;
  int num_layers;
  enum activation activation;
  uint32_t seed;
  bool masked, normalizes; /* observations and values */
} cases[] = {
    {"mlp", 0, ACTIVATION_NONE, 1, false, false},  {"mlp", 1, ACTIVATION_RELU, 2, false, false},
    {"mlp", 3, ACTIVATION_TANH, 3, false, false},  {"lstm", 0, ACTIVATION_NONE, 4, false, false},
    {"lstm", 1, ACTIVATION_TANH, 5, false, false}, {"lstm", 2, ACTIVATION_RELU, 6, false, false},
    {"mlp", 1, ACTIVATION_TANH, 7, true, false},   {"lstm", 1, ACTIVATION_RELU, 8, true, false},
    {"mlp", 1, ACTIVATION_TANH, 9, false, true},   {"lstm", 1, ACTIVATION_RELU, 10, true, true},
};

/* The batch must have what makes gradients go wrong: terminations and truncations inside its
 * windows. */
static void check_has_borders(const struct train_batch *batch) {
  int terminated = 0, truncated = 0;
  for (int i = COLUMNS; i < STEPS; i++) {
    terminated += (batch->flags[i] & STEP_TERMINATED) != 0;
    truncated += (batch->flags[i] & STEP_TRUNCATED) != 0;
  }
  if (!terminated || !truncated) fail_msg("%d terminated, %d truncated", terminated, truncated);
}

struct problem {
  struct network_config config;
  struct network *network;
  struct device *device;
  struct learner_options update;
  struct train_batch *batch;
  struct reference_targets targets;
};

static double loss_at(const struct problem *p, const double *params) {
  double head[(STEPS + COLUMNS) * (ACTIONS + 1)];
  reference_heads(head, p->device, p->network, &p->config, params, p->batch);
  struct reference_losses losses = reference_losses(
      &p->update, p->batch, head, &p->targets, p->update.algorithm.actor_critic.entropy_cost, 0);
  bool sums = strcmp(p->update.algorithm.loss_reduction, "sum_over_time") == 0;
  return sums ? losses.total * losses.steps / COLUMNS : losses.total;
}

/* The parameters that have a gradient: statistics stand behind them. */
static size_t num_trained(const struct problem *p) {
  size_t statistics = p->config.normalize ? 3 * FLOATS + NETWORK_VALUE_STATISTICS : 0;
  return network_num_parameters(p->network) - statistics;
}

/* Parameters large enough that all units are at work, and statistics; also written where the update
 * reads them. */
static void randomise(double *params, const struct problem *p, const struct update *update,
                      uint32_t seed) {
  struct stream stream = {seed, 1000000};
  for (size_t i = 0; i < update_num_parameters(update); i++)
    params[i] =
        i < num_trained(p) ? stream_between(&stream, -0.8, 0.8) : stream_between(&stream, 0.3, 2);
  memcpy((void *)(uintptr_t)update_parameters(update), params,
         update_num_parameters(update) * sizeof(double));
}

/* With beta1 = 0 Adam's m is the gradient. */
static void gradient_of(double *gradient, struct problem *p, double *params, uint32_t seed) {
  struct update *update = fixture_update(p->device, p->network, &p->update);
  randomise(params, p, update, seed);
  fixture_step(update, p->batch, 0);
  fixture_saved(gradient, update, "adam/m", p->network);
  update_destroy(update);
}

static void check_gradient(struct problem *p, uint32_t seed) {
  const double e = 1e-5;
  double params[MAX_P], gradient[MAX_P], head[(STEPS + COLUMNS) * (ACTIONS + 1)], largest = 0;
  size_t P = num_trained(p), all = network_num_parameters(p->network);
  assert_true(all < MAX_P);
  gradient_of(gradient, p, params, seed);
  reference_heads(head, p->device, p->network, &p->config, params, p->batch);
  reference_targets(&p->targets, &p->update, p->batch, head);
  if (p->config.scale_value) reference_deviation(&p->targets, p->network, params, p->batch);
  for (size_t i = 0; i < P; i++) largest = fmax(largest, fabs(gradient[i]));
  assert_true(largest > 0.01);
  for (size_t i = P; i < all; i++) assert_true(gradient[i] == 0);
  for (size_t i = 0; i < P; i++) {
    double at = params[i];
    params[i] = at + e;
    double above = loss_at(p, params);
    params[i] = at - e;
    double difference = (above - loss_at(p, params)) / (2 * e);
    params[i] = at;
    if (fabs(difference - gradient[i]) > 1e-6 * fmax(fabs(difference), 1e-3 * largest))
      fail_msg("seed %u, parameter %zu: finite difference %.10g, gradient %.10g", seed, i,
               difference, gradient[i]);
  }
}

static void check_all(char *agent, char *loss_reduction) {
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct problem p = {
        .config = fixture_config(cases[i].network, cases[i].num_layers, cases[i].activation),
        .device = fixture_device("ref_double"),
        .update = fixture_options()};
    p.config.inputs.masked = cases[i].masked;
    p.config.normalize = p.config.scale_value = cases[i].normalizes;
    p.update.optimizer.adam_beta1 = 0;
    p.update.agent = agent;
    p.update.algorithm.loss_reduction = loss_reduction;
    p.network = fixture_network(&p.config);
    p.batch = fixture_batch(p.device, p.network, UNROLL, COLUMNS, cases[i].seed);
    check_has_borders(p.batch);
    check_gradient(&p, cases[i].seed);
    train_batch_destroy(p.device, p.batch);
    device_destroy(p.device);
    network_destroy(p.network);
  }
}

static void the_gradients_of_vtrace_match_finite_differences(void **state) {
  (void)state;
  check_all("vtrace", "mean");
  check_all("vtrace", "sum_over_time");
}

static void the_gradients_of_a2c_match_finite_differences(void **state) {
  (void)state;
  check_all("a2c", "mean");
  check_all("a2c", "sum_over_time");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_gradients_of_vtrace_match_finite_differences),
      cmocka_unit_test(the_gradients_of_a2c_match_finite_differences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
