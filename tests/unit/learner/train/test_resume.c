/* A run that stops and goes on is the run that never stopped: N updates on a stream of batches give
 * the same bits as N/2, a checkpoint in a file, a new update that reads it, and N/2 more. */
#include <dirent.h>
#include <unistd.h>

#include "learner/learn/policy.h"
#include "tests/unit/learner/train/fixture.h"
#include "learner/device/create.h"

enum { UPDATES = 2000 };

struct world {
  struct network_config config;
  struct network *network;
  struct device *device;
  struct train_batch *batch;
};

static struct world world_open_for(const char *agent, const char *network, bool normalizes) {
  struct world w = {.config = fixture_config(network, 1, ACTIVATION_TANH),
                    .device = fixture_device("ref")};
  if (algorithms_find(agent)->policies[0]->action_values)
    w.config.values = (struct action_values){.A = ACTIONS, .Z = 1, .dueling = true};
  w.config.normalize = normalizes;
  w.config.scale_value = normalizes && !w.config.values.A;
  w.network = fixture_network(&w.config);
  w.batch = fixture_batch(w.device, w.network, UNROLL, COLUMNS, 0);
  for (int n = 0; n < COLUMNS; n++) ((float *)w.batch->weight.host)[n] = 1 / (1 + (float)n);
  return w;
}

static struct world world_open(const char *network) {
  return world_open_for("vtrace", network, false);
}

static void world_close(struct world *w) {
  train_batch_destroy(w->device, w->batch);
  device_destroy(w->device);
  network_destroy(w->network);
}

static struct learner_options config_of(char *optimizer, double target_entropy) {
  struct learner_options config = fixture_options();
  config.optimizer.name = optimizer;
  config.algorithm.actor_critic.target_entropy = target_entropy;
  config.optimizer.learning_rate = 0.002;
  config.optimizer.learning_rate_decay = "linear";
  config.total_steps = 2 * UPDATES;
  config.optimizer.max_gradient_norm = 1;
  return config;
}

/* Half of the updates are not a whole number of copies of the target network. */
static void replay_of(struct learner_options *config) {
  config->algorithm.q_learning.n_steps = 2;
  config->algorithm.q_learning.double_q = config->algorithm.q_learning.partial_returns = true;
  config->algorithm.q_learning.priority_eta = 0.9;
  config->algorithm.q_learning.target_update = 300;
}

/* Batch u of the stream is the same whoever asks for it. */
static void train(struct update *update, struct world *w, int from, int to) {
  for (int u = from; u < to; u++) {
    fixture_fill_batch(w->device, w->batch, (uint32_t)(1000 + u));
    fixture_step(update, w->batch, u);
  }
}

static void remove_folder(const char *folder) {
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    if (entry->d_name[0] != '.') unlink(path);
  }
  if (dir) closedir(dir);
  rmdir(folder);
}

/* From one update to another through a checkpoint file, which lacks the item `without`. */
static void hand_over_without(struct update *to, struct update *from, const char *without) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  char folder[] = "/tmp/acorn-resume-XXXXXX";
  char path[CHECKPOINT_PATH_BYTES];
  struct error error = {""};
  assert_non_null(mkdtemp(folder));
  update_save(from);
  int count = 0, all = update_items(from, items);
  for (int i = 0; i < all; i++)
    if (strcmp(items[i].name, without) != 0) items[count++] = items[i];
  struct checkpoint_kept kept = {.count = 1};
  enum status written = checkpoint_write(folder, update_version(from), items, count, &kept, &error);
  count = update_items(to, items);
  enum status read =
      written == STATUS_OK ? checkpoint_read_newest(folder, items, count, path, &error) : written;
  remove_folder(folder);
  if (read != STATUS_OK) fail_msg("%s", error.text);
  update_load(to);
  assert_int_equal(update_version(to), update_version(from));
}

static void hand_over(struct update *to, struct update *from) {
  hand_over_without(to, from, "");
}

/* All items of both, which hold the whole state. */
static void assert_same_state(struct update *a, struct update *b) {
  struct checkpoint_item items[2][CHECKPOINT_MAX_ITEMS];
  update_save(a);
  update_save(b);
  int count = update_items(a, items[0]);
  assert_int_equal(update_items(b, items[1]), count);
  for (int i = 0; i < count; i++) {
    size_t bytes = checkpoint_item_bytes(&items[0][i]);
    assert_string_equal(items[0][i].name, items[1][i].name);
    assert_true(items[0][i].data != items[1][i].data);
    if (memcmp(items[0][i].data, items[1][i].data, bytes) != 0)
      fail_msg("%s differs", items[0][i].name);
  }
}

static void resumed_run_is_the_same_run(void **state) {
  (void)state;
  static const struct {
    char *agent;
    const char *network;
    char *optimizer;
    double target_entropy, target_kl, kl_threshold;
    bool normalizes;
  } table[] = {{"vtrace", "mlp", "adam", -1, 0, 0, false},
               {"vtrace", "mlp", "rmsprop", -1, 0, 0, true},
               {"vtrace", "lstm", "adam", 0.8, 0, 0, false},
               {"vtrace", "lstm", "rmsprop", 0.8, 0, 0, false},
               {"ppo", "mlp", "adam", -1, 0, 0, true},
               {"ppo", "lstm", "adam", 0.8, 0, 0, false},
               {"ppo", "mlp", "adam", -1, 1, 0, true},
               {"ppo", "mlp", "adam", -1, 0, 1e-3, false},
               {"double_dqn", "mlp", "adam", -1, 0, 0, true},
               {"r2d2", "lstm", "adam", -1, 0, 0, false}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct world w = world_open_for(table[i].agent, table[i].network, table[i].normalizes);
    struct learner_options config = config_of(table[i].optimizer, table[i].target_entropy);
    config.agent = table[i].agent;
    config.algorithm.ppo.target_kl = table[i].target_kl;
    config.algorithm.ppo.kl_threshold = table[i].kl_threshold;
    replay_of(&config);
    struct update *whole = fixture_update(w.device, w.network, &config);
    struct update *first = fixture_update(w.device, w.network, &config);
    /* The checkpoint must bring everything: initial parameters of its own would show. (A run keeps
     * its seed, which ppo shuffles by.) */
    if (strcmp(config.agent, "ppo") != 0) config.seed++;
    struct update *second = fixture_update(w.device, w.network, &config);
    train(whole, &w, 0, UPDATES);
    train(first, &w, 0, UPDATES / 2);
    hand_over(second, first);
    assert_same_state(first, second);
    train(second, &w, UPDATES / 2, UPDATES);
    assert_same_state(whole, second);
    if (table[i].target_kl >
        0) { /* some updates end before their last pass, not all at the first */
      int64_t steps = *(int64_t *)fixture_item(whole, "update/steps").data;
      assert_in_range(steps, UPDATES / 10, 2 * COLUMNS * UPDATES - UPDATES / 10);
    }
    update_destroy(whole);
    update_destroy(first);
    update_destroy(second);
    world_close(&w);
  }
}

static void items_cover_the_state(void **state) {
  (void)state;
  static const struct {
    const char *name;
    enum checkpoint_dtype dtype;
    int rank;
    uint64_t shape[2];
  } expected[] = {
      {"params/hidden0/w", CHECKPOINT_FLOAT32, 2, {9, 6}},
      {"params/hidden0/b", CHECKPOINT_FLOAT32, 1, {6, 0}},
      {"params/head/w", CHECKPOINT_FLOAT32, 2, {6, 4}},
      {"params/head/b", CHECKPOINT_FLOAT32, 1, {4, 0}},
      {"rmsprop/ms/hidden0/w", CHECKPOINT_FLOAT32, 2, {9, 6}},
      {"rmsprop/ms/hidden0/b", CHECKPOINT_FLOAT32, 1, {6, 0}},
      {"rmsprop/ms/head/w", CHECKPOINT_FLOAT32, 2, {6, 4}},
      {"rmsprop/ms/head/b", CHECKPOINT_FLOAT32, 1, {4, 0}},
      {"rmsprop/mom/hidden0/w", CHECKPOINT_FLOAT32, 2, {9, 6}},
      {"rmsprop/mom/hidden0/b", CHECKPOINT_FLOAT32, 1, {6, 0}},
      {"rmsprop/mom/head/w", CHECKPOINT_FLOAT32, 2, {6, 4}},
      {"rmsprop/mom/head/b", CHECKPOINT_FLOAT32, 1, {4, 0}},
      {"update/entropy", CHECKPOINT_FLOAT64, 1, {4, 0}},
      {"update/version", CHECKPOINT_INT64, 1, {1, 0}},
  };
  struct world w = world_open("mlp");
  struct learner_options config = config_of("rmsprop", -1);
  struct update *update = fixture_update(w.device, w.network, &config);
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  assert_int_equal(update_items(update, items), sizeof(expected) / sizeof(expected[0]));
  for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
    assert_string_equal(items[i].name, expected[i].name);
    assert_int_equal(items[i].dtype, expected[i].dtype);
    assert_int_equal(items[i].rank, expected[i].rank);
    for (int k = 0; k < items[i].rank; k++)
      assert_int_equal(items[i].shape[k], expected[i].shape[k]);
  }
  update_destroy(update);
  world_close(&w);
}

/* A checkpoint of a run with a constant coefficient does not decide where a target starts from. */
static void a_constant_coefficient_is_not_handed_on(void **state) {
  (void)state;
  struct world w = world_open("mlp");
  struct learner_options constant = config_of("adam", -1), adjusted = config_of("adam", 0.8);
  struct update *from = fixture_update(w.device, w.network, &constant);
  struct update *to = fixture_update(w.device, w.network, &adjusted);
  train(from, &w, 0, 3);
  update_save(from);
  update_save(to);
  *(int64_t *)fixture_item(to, "update/version").data =
      *(int64_t *)fixture_item(from, "update/version").data;
  memcpy(fixture_item(to, "update/entropy").data, fixture_item(from, "update/entropy").data,
         4 * sizeof(double));
  update_load(to);
  assert_int_equal(update_version(to), 3);
  struct update_stats stats = fixture_step(to, w.batch, 0);
  assert_true(fabs(stats.entropy_cost - adjusted.algorithm.actor_critic.entropy_cost) < 1e-9);
  update_destroy(from);
  update_destroy(to);
  world_close(&w);
}

/* Sets the share of the rate that is in force, by way of a checkpoint's item. */
static void set_rate(struct update *update, double share) {
  update_save(update);
  *(double *)fixture_item(update, "update/rate").data = share;
  update_load(update);
}

static double rate_of(struct update *update) {
  update_save(update);
  return *(double *)fixture_item(update, "update/rate").data;
}

static double divergence_of(const struct update_stats *stats) {
  return stats->losses.term[fixture_term("ppo", "policy/kl")];
}

/* The fixture's log-probabilities of acting are invented, so that every batch is far from the
 * policy that acted. An update is in force with the rate that the one before has left. */
static void the_rate_follows_the_divergence(void **state) {
  (void)state;
  static const struct {
    double per_divergence; /* of the threshold, as a share of a batch's divergence; 0: none */
    double before, after;  /* shares of the rate */
  } table[] = {{0.4, 1, 1 / 1.5}, {0.6, 0.5, 0.5},    {1.9, 0.5, 0.5}, {2.1, 0.5, 0.75},
               {2.1, 0.9, 1},     {0.4, 0.012, 0.01}, {0, 0.5, 1}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct world w = world_open_for("ppo", "mlp", false);
    struct learner_options config = config_of("adam", -1);
    config.agent = "ppo";
    config.optimizer.learning_rate = 1e-9; /* the policy stays, and so the divergence */
    config.optimizer.learning_rate_decay = "none";
    struct update *update = fixture_update(w.device, w.network, &config);
    fixture_fill_batch(w.device, w.batch, 1000);
    struct update_stats stats = fixture_step(update, w.batch, 0);
    config.algorithm.ppo.kl_threshold = table[i].per_divergence * divergence_of(&stats);
    update_destroy(update);

    update = fixture_update(w.device, w.network, &config);
    set_rate(update, table[i].before);
    stats = fixture_step(update, w.batch, 1);
    assert_float_equal(stats.learning_rate, 1e-9 * table[i].before, 1e-18);
    assert_float_equal(rate_of(update), table[i].after, 1e-12);
    update_destroy(update);
    world_close(&w);
  }
}

static void a_checkpoint_of_before_leaves_the_rate_whole(void **state) {
  (void)state;
  struct world w = world_open_for("ppo", "mlp", false);
  struct learner_options config = config_of("adam", -1);
  config.agent = "ppo";
  struct update *from = fixture_update(w.device, w.network, &config);
  struct update *to = fixture_update(w.device, w.network, &config);
  set_rate(from, 0.5);
  hand_over_without(to, from, "update/rate");
  assert_float_equal(rate_of(to), 1, 1e-12);
  hand_over(to, from);
  assert_float_equal(rate_of(to), 0.5, 1e-12);
  update_destroy(from);
  update_destroy(to);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(items_cover_the_state),
      cmocka_unit_test(a_constant_coefficient_is_not_handed_on),
      cmocka_unit_test(resumed_run_is_the_same_run),
      cmocka_unit_test(the_rate_follows_the_divergence),
      cmocka_unit_test(a_checkpoint_of_before_leaves_the_rate_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
