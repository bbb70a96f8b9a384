/* Updates of several learners, each on a part of a batch, beside one learner on all of it: the same
 * parameters after 100 updates (20 on emulated GPUs, which are slow; fewer where a sanitizer is),
 * whatever the agent, with running statistics, with a learner that has no batch, and however the
 * learners meet: to the last bit the same by connections as by memory, or by a group of GPUs, where
 * an update stays one graph. */
#include "learner/train/peers.h"
#include "learner/train/update_stats.h"
#include "tests/unit/learner/train/fixture.h"
#include "tests/unit/learner/train/peers_devices_testing.h"
#include "tests/unit/support/races.h"

enum {
  WINDOWS = 4,
  HALF = WINDOWS / 2,
  BATCHES = 3,
  UPDATES = TESTING_SLOWLY ? 20 : 100,
  GPU_UPDATES = TESTING_SLOWLY ? 8 : 20,
  LEARNERS = 3,
  FIGURES = 5,
  GRAPHS = FIGURES + 1
};

struct row {
  char *agent;
  const char *network, *device, *reduction;
  bool normalizes, adjusts;
  double target_kl, tolerance;
  bool apart; /* cuda: each learner has a GPU of its own */
};

static bool is_on_gpu(const struct row *row) {
  return strcmp(row->device, "cuda") == 0;
}

static int updates_of(const struct row *row) {
  return is_on_gpu(row) ? GPU_UPDATES : UPDATES;
}

static struct learner_options options_of(const struct row *row, int windows) {
  struct learner_options config = fixture_options();
  config.agent = row->agent;
  config.algorithm.batch_size = windows;
  config.algorithm.loss_reduction = (char *)row->reduction;
  config.algorithm.ppo.minibatches = 1;
  config.algorithm.ppo.epochs = 3;
  config.algorithm.ppo.target_kl = row->target_kl;
  config.algorithm.ppo.kl_threshold = 1e-3; /* all have to come to the same rate */
  config.algorithm.actor_critic.target_entropy = row->adjusts ? 0.7 : -1;
  config.optimizer.learning_rate = 1e-3;
  config.optimizer.max_gradient_norm = 0.5;
  return config;
}

static struct network_config network_of(const struct row *row) {
  struct network_config config = fixture_config(row->network, 1, ACTIVATION_TANH);
  config.normalize = config.scale_value = row->normalizes;
  return config;
}

/* `count` rows of N columns: the columns from `from` on. */
static void copy_columns(void *to, const void *all, int count, int from, int N, size_t bytes) {
  for (int t = 0; t < count; t++)
    memcpy((char *)to + (size_t)(t * N) * bytes,
           (const char *)all + (size_t)(t * WINDOWS + from) * bytes, (size_t)N * bytes);
}

static void take_half(struct train_batch *half, const struct train_batch *all, int from,
                      size_t real_bytes) {
  int rows = UNROLL + 1, N = half->N;
  const struct step_shape *shape = &all->shape;
  size_t S = (size_t)shape->state_size;
  copy_columns(half->observation, all->observation, rows, from, N, shape->row_stride);
  copy_columns(half->action, all->action, rows, from, N, shape->action_bytes);
  copy_columns(half->previous_action, all->previous_action, rows, from, N, shape->action_bytes);
  copy_columns(half->statistics, all->statistics, rows, from, N,
               (size_t)shape->statistics * sizeof(float));
  copy_columns(half->reward, all->reward, rows, from, N, sizeof(float));
  copy_columns(half->flags, all->flags, rows, from, N, 1);
  if (S) copy_columns(half->state, all->state, 1, from, N, S * real_bytes);
  memcpy(half->stamp, train_batch_stamp(all, 0, from), (size_t)(rows * N) * sizeof(*half->stamp));
}

/* What a learner of that rank has of a batch, which goes: a half, or, the last one, nothing. */
static struct train_batch *part_of(struct train_batch *all, struct device *device,
                                   const struct network *network, int rank) {
  struct train_batch *part = fixture_batch(device, network, UNROLL, HALF, 1);
  if (rank == LEARNERS - 1) {
    train_batch_make_blank(device, part);
    assert_true(update_stats_lag(part, 1000) == 0); /* nothing in it was acted by any version */
  } else
    take_half(part, all, rank * HALF, device->ops->real_bytes);
  train_batch_destroy(device, all);
  return part;
}

/* The parameters after all updates, and what they minimised. */
static void train(double *number, const struct row *row, struct peers *peers, int rank) {
  bool on_gpu = is_on_gpu(row);
  struct device *device = on_gpu ? peers_gpu(row->apart ? rank : 0) : fixture_device(row->device);
  struct network_config network_config = network_of(row);
  struct network *network = fixture_network(&network_config);
  int windows = peers ? HALF : WINDOWS;
  struct learner_options config = options_of(row, windows);
  struct update_config of_update = run_options_of_update(&config);
  of_update.policy = algorithms_find(config.agent)->policies[0];
  of_update.peers = peers;
  if (peers) peers_join(peers, device);
  long graphs = on_gpu ? -emulated_cuda_count("cudaGraphLaunch") : 0;
  struct update *update;
  struct error error;
  if (update_create(&update, device, network, algorithms_find(config.agent)->algorithm, &of_update,
                    &error) != STATUS_OK)
    fail_msg("%s", error.text);
  struct train_batch *batch[BATCHES];
  for (int i = 0; i < BATCHES; i++) {
    batch[i] = fixture_batch(device, network, UNROLL, WINDOWS, (uint32_t)i + 2);
    if (peers) batch[i] = part_of(batch[i], device, network, rank);
  }
  struct update_stats stats;
  for (int i = 0; i < updates_of(row); i++) {
    /* The last one's are blank: it comes to others than its neighbours. */
    const struct train_batch *next = batch[(peers && rank == LEARNERS - 1 ? i / 2 : i) % BATCHES];
    if (peers) peers_agree(peers, update, next);
    stats = fixture_step(update, next, 0);
  }
  if (peers) peers_meet(peers);
  update_save(update);
  double passes = algorithms_find(config.agent)->algorithm->passes
                      ? (double)*(const int64_t *)fixture_item(update, "update/steps").data
                      : updates_of(row);
  size_t P = update_num_parameters(update);
  assert_true(P + GRAPHS <= WORLD_NUMBERS);
  if (on_gpu) graphs += emulated_cuda_count("cudaGraphLaunch");
  const void *params = update_parameters(update); /* an emulated GPU's memory is the host's */
  for (size_t i = 0; i < P; i++)
    number[i] = device->ops->real_bytes == sizeof(double) ? ((const double *)params)[i]
                                                          : (double)((const float *)params)[i];
  const double shown[] = {(double)P, stats.losses.total, stats.entropy_cost, (double)stats.steps,
                          passes};
  memcpy(number + WORLD_NUMBERS - FIGURES, shown, sizeof(shown));
  number[WORLD_NUMBERS - GRAPHS] = (double)graphs;
  update_destroy(update);
  for (int i = 0; i < BATCHES; i++) train_batch_destroy(device, batch[i]);
  device_destroy(device);
  network_destroy(network);
}

static void train_with_others(struct peers_world *w, struct peers *peers, int rank) {
  train(w->result[rank].number, w->context, peers, rank);
}

static void compare(const struct row *row, const double *got, const double *expected, int rank) {
  double worst = 0;
  size_t P = (size_t)expected[WORLD_NUMBERS - FIGURES];
  for (size_t i = 0; i < P; i++) worst = fmax(worst, fabs(got[i] - expected[i]));
  for (int i = 1; i < FIGURES; i++) {
    double all = expected[WORLD_NUMBERS - i], apart = fabs(got[WORLD_NUMBERS - i] - all);
    if (!(apart <= 100 * row->tolerance * (1 + fabs(all))))
      fail_msg("%s %s %s, learner %d: figure %d is %.12g, not %.12g", row->agent, row->network,
               row->device, rank, i, got[WORLD_NUMBERS - i], all);
  }
  /* The first update of batches that come together is not one yet. */
  bool records = row->apart;
  assert_int_equal((int)got[WORLD_NUMBERS - GRAPHS], records ? updates_of(row) - 2 * BATCHES : 0);
  print_message("%s %s %s: %zu parameters, at most %.2g apart after %.0f passes\n", row->agent,
                row->network, row->device, P, worst, expected[WORLD_NUMBERS - 1]);
  if (!(worst <= row->tolerance))
    fail_msg("%s %s %s, learner %d: a parameter is %.3g away", row->agent, row->network,
             row->device, rank, worst);
}

static void halves_of_a_batch_train_as_the_whole_one(void **state) {
  (void)state;
  static const struct row table[] = {
      {"vtrace", "mlp", "ref_double", "mean", false, false, 0, 1e-12, false},
      {"vtrace", "lstm", "ref_double", "sum_over_time", false, true, 0, 1e-12, false},
      {"vtrace", "mlp", "ref_double", "mean", true, true, 0, 1e-12, false},
      {"a2c", "mlp", "ref_double", "mean", true, false, 0, 1e-12, false},
      {"ppo", "lstm", "ref_double", "mean", true, false, 0, 1e-12, false},
      {"ppo", "mlp", "ref_double", "mean", false, false, 0.5, 1e-12, false},
      {"vtrace", "mlp", "ref", "mean", false, false, 0, 1e-6, false},
      {"vtrace", "mlp", "cpu", "mean", false, false, 0, 1e-6, false},
      {"ppo", "mlp", "cpu", "mean", false, false, 0, 1e-6, false},
      {"vtrace", "mlp", "cuda", "mean", false, false, 0, 1e-6, false},
      {"vtrace", "mlp", "cuda", "mean", false, false, 0, 1e-6, true},
      {"vtrace", "lstm", "cuda", "sum_over_time", false, true, 0, 1e-6, true},
      {"ppo", "mlp", "cuda", "mean", true, false, 0.5, 1e-6, true},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    double *expected = check_alloc(2, WORLD_NUMBERS * sizeof(*expected));
    double *by_memory = expected + WORLD_NUMBERS;
    train(expected, &table[i], NULL, 0);
    if (table[i].apart)
      assert_int_equal((int)expected[WORLD_NUMBERS - GRAPHS], GPU_UPDATES - BATCHES);
    /* GPUs take long: the last row alone goes both ways. */
    bool is_last = i + 1 == sizeof(table) / sizeof(table[0]);
    int ways = is_on_gpu(&table[i]) && !is_last ? 1 : 2;
    for (int net = 0; net < ways; net++) {
      peers_world_by_net = net;
      struct peers_world w = peers_world_create(LEARNERS);
      w.context = (void *)&table[i];
      peers_world_run_all(&w, train_with_others);
      if (!net) memcpy(by_memory, w.result[0].number, sizeof(w.result[0].number));
      for (int r = 0; r < LEARNERS; r++) {
        if (w.result[r].status != STATUS_OK) fail_msg("learner %d: %s", r, w.result[r].error);
        compare(&table[i], w.result[r].number, expected, r);
        assert_memory_equal(w.result[r].number, by_memory, sizeof(w.result[0].number));
      }
      peers_world_destroy(&w);
    }
    free(expected);
  }
}

int main(void) {
  peers_use_gpus();
  const struct CMUnitTest tests[] = {cmocka_unit_test(halves_of_a_batch_train_as_the_whole_one)};
  return cmocka_run_group_tests(tests, temporary_folder_setup, temporary_folder_teardown);
}
