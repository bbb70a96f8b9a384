/* How inference explores where actions have values: each environment by its own epsilon, by the
 * schedule, evaluators by theirs; and noisy layers, other for each batch, silent where nothing is
 * trained. */
#include "common/base/random.h"
#include "tests/unit/learner/serve/inference_parts.h"
#include "tests/unit/support/races.h"

enum { TRAINED = 3, CLIENTS = TRAINED + 1, EVALUATOR = TRAINED };
enum { ROUNDS = TESTING_SLOWLY ? 300 : 3000, NOISY_ROUNDS = 40 };

static const struct replay_config replay = {.N = 2,
                                            .min_windows = 1000000,
                                            .ratio = 1,
                                            .band = 1e6,
                                            .exponent = 1,
                                            .priority = {.T = 4, .counted = 4, .n_steps = 1},
                                            .seed = 1};

struct fixture {
  struct inference_parts parts;
  struct rpc_stream stream[CLIENTS];
  bool trains;
  int rounds;
};

static struct fixture *open_with(const struct inference_config *inference, bool noisy,
                                 bool trains) {
  struct fixture *f = check_alloc(1, sizeof(*f));
  struct inference_parts_config config = {.network = "mlp",
                                          .policy = &policy_epsilon_greedy,
                                          .no_layers = true,
                                          .noisy = noisy,
                                          .train_slots = TRAINED,
                                          .clients = CLIENTS,
                                          .trains = trains,
                                          .T = 4,
                                          .N = 2,
                                          .replay = &replay,
                                          .stride = 4,
                                          .inference = *inference};
  struct inference_metrics none = {NULL};
  inference_parts_create(&f->parts, &config, &none);
  f->trains = trains;
  for (int i = 0; i < CLIENTS; i++)
    batcher_add(f->parts.batcher, i, 1, i, 1, !trains || i == EVALUATOR, true, 0);
  return f;
}

/* All parameters; of the noise's deviations `deviation`. */
static void publish(struct fixture *f, float mean, float deviation) {
  struct device *device = f->parts.device;
  size_t P = network_num_parameters(f->parts.network);
  float *host = check_alloc(P, sizeof(*host));
  int count;
  const struct network_parameter *parameter = network_parameters(f->parts.network, &count);
  for (int j = 0; j < count; j++)
    for (size_t i = 0; i < parameter[j].count; i++)
      host[parameter[j].offset + i] = strstr(parameter[j].name, "_deviation") ? deviation : mean;
  real *params = device->ops->alloc(device, P * device->ops->real_bytes);
  device->ops->upload(device, params, host, P);
  weights_publish(f->parts.weights, device, params, 1);
  device->ops->release(device, params);
  free(host);
}

static void shut(struct fixture *f) {
  inference_parts_destroy(&f->parts);
  free(f);
}

/* A step of every client, always the same; the actions that they are answered with. */
static void step(struct fixture *f, int32_t action[CLIENTS]) {
  for (int i = 0; i < CLIENTS; i++)
    inference_parts_send(&f->parts, i, &f->stream[i], 1, 0, f->rounds ? 0 : STEP_FIRST, f->rounds);
  inference_parts_run(&f->parts, f->rounds++);
  for (int i = 0; i < CLIENTS; i++) action[i] = inference_parts_heard(&f->stream[i]);
}

/* ---- epsilon. All values are 0, of which action 0 is the first: another one is random, and so are
 * two of three random ones */

static void count_random(struct fixture *f, double share[CLIENTS], int rounds) {
  int32_t action[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) share[i] = 0;
  for (int round = 0; round < rounds; round++) {
    step(f, action);
    for (int i = 0; i < CLIENTS; i++) share[i] += action[i] != 0 ? 1.5 / rounds : 0;
  }
}

/* Within four standard deviations, and one draw. */
static void expect_share(double is, double epsilon, int rounds) {
  double deviation = sqrt(1.5 * epsilon / rounds);
  if (fabs(is - epsilon) > 4 * deviation + 1.5 / rounds)
    fail_msg("a share of %g is random, not %g", is, epsilon);
}

static void each_environment_has_its_epsilon(void **state) {
  (void)state;
  struct fixture *f =
      open_with(&(struct inference_config){.seed = 2,
                                           .greedy_eval = true,
                                           .exploration = {.kind = EXPLORATION_PER_ENVIRONMENT,
                                                           .environments = TRAINED,
                                                           .start = 0.8,
                                                           .evaluation = 0.05}},
                false, true);
  double share[CLIENTS];
  publish(f, 0, 0);
  count_random(f, share, ROUNDS);
  for (int i = 0; i < TRAINED; i++) expect_share(share[i], pow(0.8, 1 + 7 * i / 2.0), ROUNDS);
  expect_share(share[EVALUATOR], 0.05, ROUNDS);
  shut(f);
}

/* Counted in steps of the training environments; --policy=sample: evaluators follow. */
static void the_schedule_moves_with_the_steps(void **state) {
  (void)state;
  struct fixture *f =
      open_with(&(struct inference_config){.seed = 2,
                                           .exploration = {.kind = EXPLORATION_LINEAR,
                                                           .environments = TRAINED,
                                                           .start = 0.9,
                                                           .end = 0.1,
                                                           .steps = TRAINED * ROUNDS,
                                                           .evaluation = 0}},
                false, true);
  double share[CLIENTS];
  publish(f, 0, 0);
  count_random(f, share, ROUNDS);
  for (int i = 0; i < CLIENTS; i++) expect_share(share[i], 0.5, ROUNDS);
  count_random(f, share, ROUNDS);
  for (int i = 0; i < CLIENTS; i++) expect_share(share[i], 0.1, ROUNDS);
  shut(f);
}

/* ---- noise */

static struct fixture *open_noisy(uint64_t seed, uint32_t first_batch, bool trains) {
  struct fixture *f =
      open_with(&(struct inference_config){.seed = seed,
                                           .greedy_eval = true,
                                           .first_batch = first_batch,
                                           .exploration = {.kind = EXPLORATION_CONSTANT}},
                true, trains);
  publish(f, 0.5f, 1);
  return f;
}

/* The action of each round: all rows of a batch have the same noise, and read the same. */
static void actions_of(int32_t chosen[NOISY_ROUNDS], uint64_t seed, uint32_t first_batch,
                       bool trains) {
  struct fixture *f = open_noisy(seed, first_batch, trains);
  for (int round = 0; round < NOISY_ROUNDS; round++) {
    int32_t action[CLIENTS];
    step(f, action);
    for (int i = 1; i < CLIENTS; i++) assert_int_equal(action[i], action[0]);
    chosen[round] = action[0];
  }
  shut(f);
}

static bool same(const int32_t *a, const int32_t *b) {
  return memcmp(a, b, NOISY_ROUNDS * sizeof(*a)) == 0;
}

static void each_batch_has_a_noise_of_its_own(void **state) {
  (void)state;
  int32_t first[NOISY_ROUNDS], again[NOISY_ROUNDS], other[NOISY_ROUNDS], resumed[NOISY_ROUNDS];
  actions_of(first, 3, 0, true);
  actions_of(again, 3, 0, true);
  actions_of(other, 4, 0, true);
  actions_of(resumed, 3, 1 << 20, true);
  int changes = 0;
  for (int i = 1; i < NOISY_ROUNDS; i++) changes += first[i] != first[i - 1];
  assert_true(changes > NOISY_ROUNDS / 4);
  assert_true(same(first, again));
  assert_false(same(first, other) || same(first, resumed));
}

static void an_evaluation_has_none(void **state) {
  (void)state;
  int32_t chosen[NOISY_ROUNDS];
  actions_of(chosen, 3, 0, false);
  for (int i = 0; i < NOISY_ROUNDS; i++) assert_int_equal(chosen[i], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_environment_has_its_epsilon),
      cmocka_unit_test(the_schedule_moves_with_the_steps),
      cmocka_unit_test(each_batch_has_a_noise_of_its_own),
      cmocka_unit_test(an_evaluation_has_none),
  };
  int failed = 0;
  for (int i = 0; i < INFERENCE_PARTS_DEVICES; i++) {
    inference_parts_device = inference_parts_devices[i];
    failed += cmocka_run_group_tests_name(inference_parts_device, tests, NULL, NULL);
  }
  return failed;
}
