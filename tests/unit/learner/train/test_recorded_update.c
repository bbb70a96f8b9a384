/* Updates on a device with recordings: played and overlapping they give the bits of direct calls
 * one after the other, and each costs a few calls of the runtime, whatever the network is. */
#include "learner/learn/policy.h"
#include "tests/unit/learner/train/fixture.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/races.h"
#include "learner/device/create.h"
#include "learner/device/shared.h"

/* A batch's first update is made directly, its second is recorded, the others are played. */
enum {
  BATCHES = 2,
  UPDATES = (TESTING_FOR_RACES ? 3 : 4) * BATCHES,
  KINDS = TESTING_FOR_RACES ? 2 : 7,
  PRECISIONS = TESTING_SLOWLY ? 1 : 2,
  MEASURED = TESTING_FOR_RACES ? 2 : 10
};

/* `ops`: the device's table, which may lack recordings. */
struct world {
  struct device *device;
  struct device_ops ops;
  struct network *network;
  struct learner_options options;
  struct train_batch *batch[BATCHES];
  struct update *update;
};

struct kind {
  char *agent;
  const char *network;
  int layers; /* hidden; 0: one */
  int width;  /* of the hidden layers and the LSTM; 0: a few, by the fixture */
  bool noisy, normalizes;
  char *optimizer;
  int epochs, minibatches; /* of ppo */
};

static void make_batches(struct world *w) {
  for (int k = 0; k < BATCHES; k++) {
    w->batch[k] = fixture_batch(w->device, w->network, UNROLL, COLUMNS, (uint32_t)(50 + k));
    float *weight = w->batch[k]->weight.host;
    for (int n = 0; n < COLUMNS; n++) weight[n] = 1 / (1 + (float)n);
    device_shared_upload(w->device, &w->batch[k]->weight);
  }
  device_finish(w->device);
}

static void open_world(struct world *w, const struct kind *kind, const char *precision,
                       bool records) {
  *w = (struct world){.device = emulated_cuda_create(precision), .options = fixture_options()};
  w->ops = *w->device->ops;
  w->device->ops = &w->ops;
  if (!records) w->ops.record = NULL;
  struct network_config config =
      fixture_config(kind->network, kind->layers ? kind->layers : 1, ACTIVATION_TANH);
  for (int k = 0; kind->width && k < config.num_layers; k++) config.hidden[k] = kind->width;
  if (kind->width) config.lstm_size = kind->width;
  if (algorithms_find(kind->agent)->policies[0]->action_values)
    config.values = (struct action_values){.A = ACTIONS, .Z = 1, .dueling = true};
  config.noisy = kind->noisy;
  config.normalize = kind->normalizes;
  config.scale_value = kind->normalizes && !config.values.A;
  w->network = fixture_network(&config);
  w->options.agent = kind->agent;
  w->options.optimizer.name = kind->optimizer;
  if (kind->epochs != 0) {
    w->options.algorithm.ppo.epochs = kind->epochs;
    w->options.algorithm.ppo.minibatches = kind->minibatches;
  }
  w->options.algorithm.q_learning.n_steps = 2;
  w->options.algorithm.q_learning.double_q = w->options.algorithm.q_learning.partial_returns = true;
  w->options.algorithm.q_learning.priority_eta = 0.9;
  w->options.algorithm.q_learning.target_update = 5;
  w->options.optimizer.max_gradient_norm = 1;
  w->update = fixture_update(w->device, w->network, &w->options);
  make_batches(w);
}

static void close_world(struct world *w) {
  update_destroy(w->update);
  for (int k = 0; k < BATCHES; k++) train_batch_destroy(w->device, w->batch[k]);
  network_destroy(w->network);
  device_destroy(w->device);
}

static void finish(struct world *w) {
  struct update_stats stats;
  struct error error;
  if (update_finish(w->update, &stats, &error) != STATUS_OK) fail_msg("%s", error.text);
}

/* Updates of the batches in turn, by the shape of a trainer. */
static void train(struct world *w, bool overlaps, int updates) {
  for (int u = 0; u < updates; u++) {
    if (update_running(w->update) && !(overlaps && update_may_overlap(w->update))) finish(w);
    update_start(w->update, w->batch[u % BATCHES], u);
    if (update_running(w->update) == UPDATE_MAX_RUNNING) finish(w);
  }
  while (update_running(w->update)) finish(w);
}

static void expect_same_state(struct update *a, struct update *b, const struct kind *kind) {
  struct checkpoint_item items[2][CHECKPOINT_MAX_ITEMS];
  update_save(a);
  update_save(b);
  int count = update_items(a, items[0]);
  assert_int_equal(update_items(b, items[1]), count);
  for (int i = 0; i < count; i++)
    if (memcmp(items[0][i].data, items[1][i].data, checkpoint_item_bytes(&items[0][i])) != 0)
      fail_msg("%s, %s: %s differs", kind->agent, kind->network, items[0][i].name);
}

/* The wide one's LSTM has a kernel for all steps together, in bf16. */
static const struct kind kinds[7] = {
    {.agent = "vtrace", .network = "lstm", .optimizer = "rmsprop"},
    {.agent = "double_dqn", .network = "mlp", .noisy = true, .optimizer = "adam"},
    {.agent = "vtrace", .network = "mlp", .normalizes = true, .optimizer = "adam"},
    {"ppo", "mlp", .normalizes = true, .optimizer = "adam", .epochs = 1, .minibatches = COLUMNS},
    {.agent = "ppo", .network = "lstm", .optimizer = "rmsprop", .epochs = 2, .minibatches = 1},
    {.agent = "r2d2", .network = "lstm", .optimizer = "adam"},
    {.agent = "vtrace", .network = "lstm", .width = 64, .optimizer = "adam"}};

static void recorded_and_overlapping_is_direct(void **state) {
  (void)state;
  static const char *const precisions[] = {"float32", "bf16"};
  for (size_t i = 0; i < PRECISIONS * KINDS; i++) {
    const struct kind *kind = &kinds[i / PRECISIONS];
    const char *precision = precisions[(i + 1) % 2]; /* both, or they take turns */
    struct world recorded, direct;
    open_world(&recorded, kind, precision, true);
    open_world(&direct, kind, precision, false);
    train(&recorded, true, UPDATES);
    train(&direct, false, UPDATES);
    expect_same_state(recorded.update, direct.update, kind);
    assert_int_equal(update_version(recorded.update), UPDATES);
    close_world(&recorded);
    close_world(&direct);
  }
}

/* What an update costs once its batch's first two have been made: cudaGraphLaunch, and an event
 * that is recorded and waited for. Where frames are stacked that is all, too; noise is drawn
 * outside. */
enum { CALLS_OF_UPDATE = 3 };

static void an_update_is_a_few_calls(void **state) {
  (void)state;
  static const char *const never[] = {"cudaMalloc",
                                      "cudaHostAlloc",
                                      "cudaFree",
                                      "cudaFreeHost",
                                      "cudaDeviceSynchronize",
                                      "cudaStreamSynchronize",
                                      "spin",
                                      "work",
                                      "cudaGraphInstantiate",
                                      "cudaEventCreateWithFlags"};
  enum { NEVER = sizeof(never) / sizeof(never[0]) };
  if (!emulated_cuda_is_used()) return;
  for (int i = 0; i < 3; i += 2) {
    struct world w;
    open_world(&w, &kinds[i], "float32", true);
    train(&w, true, 2 * BATCHES);
    long before[NEVER], all = emulated_cuda_count(NULL);
    for (int k = 0; k < NEVER; k++) before[k] = emulated_cuda_count(never[k]);
    train(&w, true, MEASURED);
    for (int k = 0; k < NEVER; k++)
      if (emulated_cuda_count(never[k]) != before[k])
        fail_msg("%d updates call %s %ld times", MEASURED, never[k],
                 emulated_cuda_count(never[k]) - before[k]);
    assert_int_equal(emulated_cuda_count(NULL) - all, MEASURED * CALLS_OF_UPDATE);
    close_world(&w);
  }
}

/* A small network's update takes as long as its kernels' launches: each node costs. The layers are
 * CartPole's. */
static void a_small_update_is_a_few_nodes(void **state) {
  enum { MOST_NODES = 15 };
  (void)state;
  if (!emulated_cuda_is_used()) return;
  struct world w;
  struct kind cartpole = {
      .agent = "vtrace", .network = "mlp", .layers = 2, .width = 64, .optimizer = "adam"};
  open_world(&w, &cartpole, "bf16", true);
  train(&w, true, 2 * BATCHES);
  emulated_cuda_take_nodes(NULL);
  train(&w, true, 1);
  assert_in_range(emulated_cuda_take_nodes("update"), 1, MOST_NODES);
  close_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(recorded_and_overlapping_is_direct),
      cmocka_unit_test(an_update_is_a_few_calls),
      cmocka_unit_test(a_small_update_is_a_few_nodes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
