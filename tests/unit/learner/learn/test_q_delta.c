/* q/delta: how far the values with the stored state are from those with the recomputed one. */
#include "learner/learn/algorithm.h"
#include "learner/learn/algorithms.h"
#include "learner/run/run_options.h"
#include "learner/train/update_stats.h"
#include "tests/unit/learner/network/fixture.h"

enum { T = 5, N = 4 };

struct world {
  struct device *device;
  struct network *network;
  struct train_batch *batch;
  struct learner_options options;
  const struct algorithm *algorithm;
  real *params, *gradient;
};

/* In double, of a dueling network with an LSTM. */
static struct world make_world(int burn_in) {
  struct world w = {.device = fixture_device("ref_double"),
                    .options = {.agent = "r2d2",
                                .algorithm.unroll_length = T,
                                .algorithm.q_learning.burn_in = burn_in,
                                .algorithm.batch_size = N,
                                .algorithm.q_learning.n_steps = 2,
                                .algorithm.q_learning.partial_returns = true,
                                .algorithm.q_learning.double_q = true,
                                .algorithm.discount = 0.9,
                                .algorithm.reward_scale = 1,
                                .algorithm.q_learning.priority_eta = 0.9,
                                .algorithm.loss_reduction = "mean",
                                .algorithm.q_learning.target_update = 100,
                                .optimizer.name = "adam",
                                .optimizer.learning_rate = 0.001,
                                .optimizer.learning_rate_decay = "none",
                                .algorithm.actor_critic.target_entropy = -1,
                                .optimizer.adam_beta1 = 0.9,
                                .optimizer.adam_beta2 = 0.999,
                                .optimizer.adam_epsilon = 1e-7}};
  struct network_config config = fixture_config("lstm", 1, ACTIVATION_TANH);
  config.values = (struct action_values){.A = ACTIONS, .Z = 1, .dueling = true};
  w.network = fixture_network(&config);
  w.batch = fixture_batch(w.device, w.network, burn_in + T, N, 3);
  w.algorithm = algorithms_find(w.options.agent)->algorithm;
  size_t P = network_num_parameters(w.network), numbers = P + (size_t)w.algorithm->num_sums;
  w.params = w.device->ops->alloc(w.device, P * w.device->ops->real_bytes);
  w.gradient = w.device->ops->alloc(w.device, numbers * w.device->ops->real_bytes);
  struct stream stream = {5, 0};
  for (size_t i = 0; i < P; i++) ((double *)w.params)[i] = stream_between(&stream, -0.5, 0.5);
  float *weight = w.batch->weight.host;
  for (int n = 0; n < N; n++) weight[n] = 1;
  return w;
}

static void destroy_world(struct world *w) {
  w->device->ops->release(w->device, w->params);
  w->device->ops->release(w->device, w->gradient);
  train_batch_destroy(w->device, w->batch);
  network_destroy(w->network);
  device_destroy(w->device);
}

/* The state (N, S) before a step, and the heads (N, stride) there, computed from the window's first
 * step; `from`: of a state that is given instead, else NULL. */
static void compute(const struct world *w, real *state, double *heads, int step, const real *from) {
  struct network_workspace *workspace =
      network_workspace_create(w->network, w->device, (step + 1) * N, false);
  struct device_inputs inputs = fixture_batch_inputs(w->network, w->batch);
  struct network_outputs out;
  if (state) network_forward(workspace, &out, state, w->params, &inputs, w->batch->state, step, N);
  size_t rows = (size_t)step * N;
  inputs.observation += rows * w->batch->shape.row_stride;
  inputs.previous_action = (const int32_t *)inputs.previous_action + rows;
  inputs.reward += rows;
  inputs.flags += rows;
  network_forward(workspace, &out, NULL, w->params, &inputs, from ? from : state, 1, N);
  memcpy(heads, out.head, (size_t)(N * out.stride) * sizeof(double));
  network_workspace_destroy(workspace);
}

static double distance(const double *stored, const double *recomputed) {
  double sum = 0;
  for (int n = 0; n < N; n++) {
    const double *a = stored + n * ACTIONS, *b = recomputed + n * ACTIONS;
    double squares = 0, largest = 0;
    for (int k = 0; k < ACTIONS; k++) {
      squares += (a[k] - b[k]) * (a[k] - b[k]);
      largest = fmax(largest, fabs(b[k]));
    }
    sum += sqrt(squares) / largest;
  }
  return sum / N;
}

static double delta_of(const struct world *w, const struct update_stats *stats) {
  for (int i = 0; i < w->algorithm->num_terms; i++)
    if (strcmp(w->algorithm->terms[i].name, "q/delta") == 0) return stats->losses.term[i];
  fail_msg("there is no q/delta");
  return 0;
}

/* What an update reports. */
static double reported(const struct world *w) {
  struct learning learning = {
      .device = w->device,
      .network = w->network,
      .options = &w->options.algorithm,
      .num_windows = (int)w->options.algorithm.batch_size,
      .seed = (uint64_t)w->options.seed,
  };
  void *self = w->algorithm->create(&learning);
  struct device_inputs inputs = fixture_batch_inputs(w->network, w->batch);
  struct device_schedule device_schedule = {0};
  struct schedule schedule = {.update = 1};
  struct parameters params = {.online = w->params, .target = w->params};
  w->algorithm->begin(self, &schedule);
  w->algorithm->gradient(self, w->gradient, &params, w->batch, &inputs, &device_schedule, 0);
  const double *sums = (const double *)w->gradient + network_num_parameters(w->network);
  struct update_stats stats = update_stats_read(sums, 1, w->algorithm);
  w->algorithm->complete(self, &stats.losses, &schedule);
  w->algorithm->destroy(self);
  return delta_of(w, &stats);
}

/* With and without burn-in; right behind it, in the middle of the unroll, and at its last row. */
static const struct { int burn_in, step; } cases[] = {{0, T}, {0, 2}, {3, 3}, {3, 5}, {3, 3 + T}};
enum { NUM_CASES = sizeof(cases) / sizeof(*cases) };

static void a_state_of_the_same_parameters_is_as_good(void **state) {
  (void)state;
  for (int i = 0; i < NUM_CASES; i++) {
    struct world w = make_world(cases[i].burn_in);
    double heads[N * ACTIONS];
    train_batch_keep_next(w.device, w.batch, cases[i].step);
    compute(&w, w.batch->next_state, heads, cases[i].step, NULL);
    assert_true(fabs(reported(&w)) < 1e-12);
    destroy_world(&w);
  }
}

static void another_state_is_as_far_as_the_values_are(void **state) {
  (void)state;
  for (int i = 0; i < NUM_CASES; i++) {
    struct world w = make_world(cases[i].burn_in);
    double recomputed[N * ACTIONS], stored[N * ACTIONS];
    train_batch_keep_next(w.device, w.batch, cases[i].step);
    compute(&w, w.batch->next_state, recomputed, cases[i].step, NULL);
    double *next = (double *)w.batch->next_state;
    for (int k = 0; k < N * w.batch->shape.state_size; k++) next[k] += 0.3 * (k % 3 - 1);
    compute(&w, NULL, stored, cases[i].step, w.batch->next_state);
    double expected = distance(stored, recomputed);
    assert_true(expected > 1e-4);
    assert_true(fabs(reported(&w) - expected) < 1e-12 * fmax(1, expected));
    destroy_world(&w);
  }
}

static void without_a_state_there_is_no_figure(void **state) {
  (void)state;
  struct world w = make_world(3);
  assert_true(isnan(reported(&w)));
  destroy_world(&w);
}

/* Nothing is trained on it. A TD error is no such figure. */
static void one_that_is_not_finite_ends_no_run(void **state) {
  (void)state;
  struct world w = make_world(3);
  struct update *update;
  struct update_stats stats;
  struct update_config of_update = run_options_of_update(&w.options);
  struct error error;
  train_batch_keep_next(w.device, w.batch, 5);
  for (int k = 0; k < N * w.batch->shape.state_size; k++) ((double *)w.batch->next_state)[k] = NAN;
  assert_int_equal(update_create(&update, w.device, w.network, w.algorithm, &of_update, &error),
                   STATUS_OK);
  update_start(update, w.batch, 0);
  if (update_finish(update, &stats, &error) != STATUS_OK) fail_msg("%s", error.text);
  assert_int_equal(update_version(update), 1);
  assert_true(isnan(delta_of(&w, &stats)));

  w.batch->reward[5 * N] = NAN;
  update_start(update, w.batch, 0);
  assert_int_equal(update_finish(update, &stats, &error), STATUS_CORRUPT);
  assert_int_equal(update_version(update), 1);
  update_destroy(update);
  destroy_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_state_of_the_same_parameters_is_as_good),
      cmocka_unit_test(another_state_is_as_far_as_the_values_are),
      cmocka_unit_test(without_a_state_there_is_no_figure),
      cmocka_unit_test(one_that_is_not_finite_ends_no_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
