/* The noise of an update of q_learning: a function of the seed and the update's number, other for
 * the two networks, and the same for the values that q/delta compares. */
#include "learner/learn/algorithm.h"
#include "learner/learn/algorithms.h"
#include "learner/run/options.h"
#include "tests/unit/learner/network/fixture.h"

enum { T = 4, N = 3, S = 10 };

struct world {
  struct device *device;
  struct network *network;
  struct train_batch *batch;
  struct learner_options options;
  double *online, *target, *gradient;
  size_t P;
};

/* What an update comes to. */
struct result {
  float priority[N];
  double delta, of_batches;
};

static struct learner_options make_options(void) {
  return (struct learner_options){.agent = "rainbow",
                                  .algorithm.unroll_length = T,
                                  .algorithm.batch_size = N,
                                  .algorithm.q_learning.n_steps = 1,
                                  .algorithm.q_learning.partial_returns = true,
                                  .algorithm.q_learning.double_q = true,
                                  .noisy = true,
                                  .algorithm.discount = 1,
                                  .algorithm.reward_scale = 1,
                                  .algorithm.q_learning.priority_eta = 0.9,
                                  .algorithm.loss_reduction = "mean",
                                  .seed = 5};
}

static double *reals(const struct world *w, size_t n) {
  return (double *)w->device->ops->alloc(w->device, n * sizeof(double));
}

static struct world make_world(void) {
  struct world w = {.device = fixture_device("ref_double"), .options = make_options()};
  struct network_config config = fixture_config("lstm", 1, ACTIVATION_TANH);
  config.values = (struct action_values){.A = ACTIONS, .Z = 1, .dueling = true};
  config.noisy = true;
  w.network = fixture_network(&config);
  assert_int_equal(network_state_size(w.network), S);
  w.batch = fixture_batch(w.device, w.network, T, N, 3);
  w.P = network_num_parameters(w.network);
  w.online = reals(&w, w.P);
  w.target = reals(&w, w.P);
  w.gradient = reals(&w, w.P + (size_t)algorithm_q_learning.num_sums);
  struct stream stream = {5, 0};
  for (size_t i = 0; i < w.P; i++) w.online[i] = stream_between(&stream, -0.5, 0.5);
  memcpy(w.target, w.online, w.P * sizeof(double));
  for (int n = 0; n < N; n++) ((float *)w.batch->weight.host)[n] = 1;
  return w;
}

static void destroy_world(struct world *w) {
  double *arrays[] = {w->online, w->target, w->gradient};
  for (int i = 0; i < 3; i++) w->device->ops->release(w->device, arrays[i]);
  train_batch_destroy(w->device, w->batch);
  network_destroy(w->network);
  device_destroy(w->device);
}

/* The parameters make no noise. */
static void silence(const struct world *w, double *params) {
  int count, silenced = 0;
  const struct network_parameter *parameter = network_parameters(w->network, &count);
  for (int j = 0; j < count; j++) {
    if (!strstr(parameter[j].name, "_deviation")) continue;
    memset(params + parameter[j].offset, 0, parameter[j].count * sizeof(*params));
    silenced++;
  }
  assert_int_equal(silenced, 2);
}

static struct result update(const struct world *w, int64_t number) {
  struct learning learning = {
      .device = w->device,
      .network = w->network,
      .options = &w->options.algorithm,
      .num_windows = (int)w->options.algorithm.batch_size,
      .seed = (uint64_t)w->options.seed,
  };
  void *self = algorithm_q_learning.create(&learning);
  struct device_inputs inputs = fixture_batch_inputs(w->network, w->batch);
  struct device_schedule device_schedule = {0};
  struct parameters params = {.online = (real *)w->online, .target = (real *)w->target};
  algorithm_q_learning.begin(self, &(struct schedule){.update = number});
  algorithm_q_learning.gradient(self, (real *)w->gradient, &params, w->batch, &inputs,
                                &device_schedule, 0);
  algorithm_q_learning.destroy(self);
  struct result result;
  memcpy(result.priority, w->batch->priority.host, sizeof(result.priority));
  result.delta = w->gradient[w->P + num_sums_of_q_learning];
  result.of_batches = w->gradient[w->P + num_sums_of_q_learning + 1];
  return result;
}

static bool same(const struct result *a, const struct result *b) {
  return memcmp(a->priority, b->priority, sizeof(a->priority)) == 0;
}

/* Of which network the noise is: the other makes none. */
static void check_draws(struct world *w) {
  struct result first = update(w, 7), again = update(w, 7), next = update(w, 8);
  w->options.seed++;
  struct result other = update(w, 7);
  assert_true(same(&first, &again));
  assert_false(same(&first, &next));
  assert_false(same(&first, &other));
}

static void each_update_has_a_noise_of_its_own(void **state) {
  (void)state;
  struct world online = make_world(), target = make_world(), none = make_world();
  silence(&online, online.target);
  check_draws(&online);
  silence(&target, target.online);
  check_draws(&target);
  silence(&none, none.online);
  silence(&none, none.target);
  struct result first = update(&none, 7), next = update(&none, 8);
  assert_true(same(&first, &next));
  destroy_world(&online);
  destroy_world(&target);
  destroy_world(&none);
}

/* Rows whose values are the same, of two networks that are: Q(x_t, a) and v(x_{t+1}) differ by
 * noise alone. One action that is always best, and no reward. */
static void make_equal_rows(struct world *w) {
  struct train_batch *batch = w->batch;
  for (int i = 0; i < (T + 1) * N; i++) {
    memcpy(batch->observation + (size_t)i * STRIDE, batch->observation, STRIDE);
    batch->flags[i] = STEP_FIRST;
    batch->reward[i] = 0;
    ((int32_t *)batch->previous_action)[i] = -1;
    ((int32_t *)batch->action)[i] = 1;
  }
  int count;
  const struct network_parameter *parameter = network_parameters(w->network, &count);
  for (int j = 0; j < count; j++)
    if (strcmp(parameter[j].name, "head/b") == 0)
      w->online[parameter[j].offset + 1] = w->target[parameter[j].offset + 1] = 100;
}

static void the_networks_have_different_noise(void **state) {
  (void)state;
  struct world w = make_world();
  make_equal_rows(&w);
  for (int number = 1; number < 50; number++) {
    struct result noisy = update(&w, number);
    for (int n = 0; n < N; n++) assert_true(noisy.priority[n] > 1e-3f);
  }
  silence(&w, w.online);
  silence(&w, w.target);
  struct result quiet = update(&w, 1);
  for (int n = 0; n < N; n++) assert_true(quiet.priority[n] < 1e-9f);
  destroy_world(&w);
}

/* At a first row the state is that of no step, whichever was stored. */
static void the_distance_of_values_has_no_noise(void **state) {
  (void)state;
  struct world w = make_world();
  train_batch_keep_next(w.device, w.batch, 2);
  for (int n = 0; n < N; n++) w.batch->flags[2 * N + n] = STEP_FIRST;
  for (int i = 0; i < N * S; i++) ((double *)w.batch->next_state)[i] = 0.5;
  struct result result = update(&w, 3);
  assert_true(result.of_batches == 1);
  assert_true(fabs(result.delta) < 1e-12);
  destroy_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_update_has_a_noise_of_its_own),
      cmocka_unit_test(the_networks_have_different_noise),
      cmocka_unit_test(the_distance_of_values_has_no_noise),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
