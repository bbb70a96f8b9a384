/* The target network: a copy of the parameters as they were after the last update whose number is a
 * multiple of --target_update steps in updates, which a checkpoint keeps. */
#include "tests/unit/learner/train/fixture.h"
#include "learner/device/create.h"
#include "learner/device/shared.h"

enum { EVERY = 4, UPDATE_STEPS = 3 };

struct world {
  struct network_config config;
  struct network *network;
  struct device *device;
  struct train_batch *batch;
  struct learner_options options;
  struct update *update;
  size_t P;
};

static void open_world(struct world *w, const char *device) {
  *w = (struct world){.config = fixture_config("lstm", 1, ACTIVATION_TANH),
                      .device = fixture_device(device),
                      .options = fixture_options()};
  w->config.values = (struct action_values){.A = ACTIONS, .Z = 1, .dueling = true};
  w->network = fixture_network(&w->config);
  w->P = network_num_parameters(w->network);
  w->batch = fixture_batch(w->device, w->network, UNROLL, COLUMNS, 3);
  float *weight = w->batch->weight.host;
  for (int n = 0; n < COLUMNS; n++) weight[n] = 1;
  device_shared_upload(w->device, &w->batch->weight);
  w->options.agent = "r2d2";
  w->options.algorithm.q_learning.n_steps = 2;
  w->options.algorithm.q_learning.double_q = w->options.algorithm.q_learning.partial_returns = true;
  w->options.replay_ratio = UNROLL * COLUMNS / (double)UPDATE_STEPS;
  w->options.algorithm.q_learning.target_update = EVERY * UPDATE_STEPS;
  w->update = fixture_update(w->device, w->network, &w->options);
}

static void close_world(struct world *w) {
  update_destroy(w->update);
  train_batch_destroy(w->device, w->batch);
  device_destroy(w->device);
  network_destroy(w->network);
}

struct parameters_of {
  double online[MAX_P], target[MAX_P];
};

static struct parameters_of parameters_of(const struct world *w, struct update *update) {
  struct parameters_of parameters = {{0}, {0}};
  fixture_saved(parameters.online, update, "params", w->network);
  fixture_saved(parameters.target, update, "target", w->network);
  return parameters;
}

static bool same(const struct world *w, const double *a, const double *b) {
  return memcmp(a, b, w->P * sizeof(*a)) == 0;
}

/* After update u: a copy if u is a multiple of EVERY, otherwise as it was. */
static void check_update(const struct world *w, struct update *update, struct parameters_of *now) {
  struct parameters_of before = *now;
  fixture_step(update, w->batch, 0);
  *now = parameters_of(w, update);
  assert_false(same(w, now->online, before.online));
  bool copies = update_version(update) % EVERY == 0;
  assert_true(same(w, now->target, copies ? now->online : before.target));
  if (!copies) assert_false(same(w, now->target, now->online));
}

static void it_is_copied_every_so_many_updates(void **state) {
  (void)state;
  static const char *const devices[] = {"ref", "cpu", "guarded"};
  for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++) {
    struct world w;
    open_world(&w, devices[d]);
    struct parameters_of now = parameters_of(&w, w.update);
    assert_true(same(&w, now.target, now.online));
    for (int u = 1; u <= 3 * EVERY + 1; u++) check_update(&w, w.update, &now);
    close_world(&w);
  }
}

/* All of what one update saves. */
static void hand_over(struct update *to, struct update *from) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  update_save(from);
  update_save(to);
  int count = update_items(from, items);
  for (int i = 0; i < count; i++)
    memcpy(fixture_item(to, items[i].name).data, items[i].data, checkpoint_item_bytes(&items[i]));
  update_load(to);
}

static void a_checkpoint_keeps_it(void **state) {
  (void)state;
  struct world w;
  open_world(&w, "ref");
  for (int u = 1; u <= EVERY + 2; u++) fixture_step(w.update, w.batch, 0);
  w.options.seed++;
  struct update *other = fixture_update(w.device, w.network, &w.options);
  hand_over(other, w.update);
  struct parameters_of is = parameters_of(&w, other), should = parameters_of(&w, w.update);
  assert_false(same(&w, should.target, should.online));
  assert_true(same(&w, is.target, should.target) && same(&w, is.online, should.online));
  for (int u = 1; u <= EVERY; u++) check_update(&w, other, &is);
  update_destroy(other);
  close_world(&w);
}

/* An update that is skipped, at a multiple of EVERY, copies nothing new. */
static void a_skipped_update_leaves_it(void **state) {
  (void)state;
  struct world w;
  open_world(&w, "ref");
  for (int u = 1; u < EVERY; u++) fixture_step(w.update, w.batch, 0);
  struct parameters_of before = parameters_of(&w, w.update);
  w.batch->reward[COLUMNS] = NAN;
  struct update_stats stats;
  struct error error;
  update_start(w.update, w.batch, 0);
  assert_int_not_equal(update_finish(w.update, &stats, &error), STATUS_OK);
  struct parameters_of after = parameters_of(&w, w.update);
  assert_true(same(&w, after.online, before.online));
  assert_true(same(&w, after.target, before.target));
  close_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_copied_every_so_many_updates),
      cmocka_unit_test(a_checkpoint_keeps_it),
      cmocka_unit_test(a_skipped_update_leaves_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
