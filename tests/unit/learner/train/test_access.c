/* Parameters that are read and set from outside: a set changes what loading it would change, bit
 * for bit; a trainer serves requests between updates and while it waits for data; none is lost. */
#include <pthread.h>
#include <stdatomic.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/device/shared.h"
#include "learner/train/trainer.h"
#include "tests/unit/learner/train/fixture.h"

enum { HALF = 3, REQUESTS = 20, ENDLESS = 1 << 30 };

/* Gives one batch again and again, so often. */
struct made {
  struct source source; /* first */
  struct train_batch *batch;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int left; /* the next three: guarded by lock */
  bool closed, interrupted;
};

static struct train_batch *take(struct source *source, int64_t wait_us) {
  struct made *made = (struct made *)source;
  pthread_mutex_lock(&made->lock);
  while (wait_us && !made->left && !made->closed && !made->interrupted)
    pthread_cond_wait(&made->changed, &made->lock);
  bool taken = made->left > 0 && !made->closed;
  made->left -= taken;
  pthread_mutex_unlock(&made->lock);
  return taken ? made->batch : NULL;
}

static void give_back(struct source *source, struct train_batch *batch) {
  (void)source, (void)batch;
}

static void tell(struct made *made, bool *what, bool on) {
  pthread_mutex_lock(&made->lock);
  *what = on;
  pthread_cond_broadcast(&made->changed);
  pthread_mutex_unlock(&made->lock);
}

static void interrupt(struct source *source, bool on) {
  struct made *made = (struct made *)source;
  tell(made, &made->interrupted, on);
}

static void close_made(struct source *source) {
  struct made *made = (struct made *)source;
  tell(made, &made->closed, true);
}

static const struct source_ops MADE = {
    .take = take, .release = give_back, .close = close_made, .interrupt = interrupt};

struct world {
  struct network *network;
  struct device *device, *inference;
  struct learner_options options;
  struct update *update;
  struct weights *weights;
  struct progress *progress;
  struct made made;
  size_t P;
  int count; /* of parameter arrays */
  float values[MAX_P];
  bool given[NETWORK_MAX_PARAMETERS];
};

static struct world *open_world(const char *agent, const char *device) {
  struct world *w = calloc(1, sizeof(*w));
  bool replays = strcmp(agent, "r2d2") == 0;
  struct network_config config = fixture_config("lstm", 1, ACTIVATION_TANH);
  if (replays) config.values = (struct action_values){.A = ACTIONS, .Z = 1, .dueling = true};
  w->device = fixture_device(device);
  w->inference = fixture_device(device);
  w->network = fixture_network(&config);
  w->P = network_num_parameters(w->network);
  (void)network_parameters(w->network, &w->count);
  w->options = fixture_options();
  w->options.agent = (char *)agent;
  w->options.algorithm.q_learning.n_steps = 2;
  w->options.algorithm.q_learning.partial_returns = true;
  w->options.algorithm.q_learning.target_update = 1000;
  w->update = fixture_update(w->device, w->network, &w->options);
  w->weights = weights_create(w->inference, w->P);
  struct progress_config progress = {.target_return = NAN};
  w->progress = progress_create(&progress);
  w->made = (struct made){.source = {&MADE},
                          .batch = fixture_batch(w->device, w->network, UNROLL, COLUMNS, 3)};
  float *weight = w->made.batch->weight.host;
  for (int n = 0; n < COLUMNS && replays; n++) weight[n] = 1;
  if (replays) device_shared_upload(w->device, &w->made.batch->weight);
  pthread_mutex_init(&w->made.lock, NULL);
  pthread_cond_init(&w->made.changed, NULL);
  for (size_t i = 0; i < w->P; i++) w->values[i] = (float)((i * 37) % 101) / 500 - 0.1f;
  for (int i = 0; i < w->count; i++) w->given[i] = true;
  return w;
}

static void close_world(struct world *w) {
  progress_destroy(w->progress);
  weights_destroy(w->weights);
  update_destroy(w->update);
  train_batch_destroy(w->device, w->made.batch);
  device_destroy(w->device);
  device_destroy(w->inference);
  network_destroy(w->network);
  free(w);
}

static void step(struct world *w, int updates) {
  for (int i = 0; i < updates; i++) fixture_step(w->update, w->made.batch, 0);
}

struct asked {
  struct access_request request; /* first */
  atomic_bool done;
};

static void note_done(struct access_request *request) {
  atomic_store(&((struct asked *)request)->done, true);
}

static struct asked a_set(const struct world *w) {
  return (struct asked){.request = {.sets = true,
                                    .values = (float *)w->values,
                                    .given = w->given,
                                    .expected_version = ACCESS_ANY_VERSION,
                                    .done = note_done}};
}

static void serve_now(struct world *w, struct asked *asked) {
  struct access access;
  access_init(&access, &w->made.source);
  access_ask(&access, &asked->request);
  assert_true(access_waits(&access) && w->made.interrupted && !atomic_load(&asked->done));
  access_serve(&access, w->update, w->weights, w->device);
  assert_true(!access_waits(&access) && !w->made.interrupted && atomic_load(&asked->done));
  access_deinit(&access);
}

/* What a checkpoint with these values for parameters and target network would leave. */
static void load_values(struct world *w) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  int count = update_items(w->update, items);
  const struct network_parameter *parameter = network_parameters(w->network, &w->count);
  update_save(w->update);
  for (int i = 0; i < count; i++)
    for (int k = 0; k < w->count; k++) {
      const char *slash = strchr(items[i].name, '/');
      bool is_own = strncmp(items[i].name, "params/", 7) == 0 || items[i].name[0] == 't';
      if (is_own && strcmp(slash + 1, parameter[k].name) == 0)
        memcpy(items[i].data, w->values + parameter[k].offset, checkpoint_item_bytes(&items[i]));
    }
  update_load(w->update);
}

static bool same_state(struct world *a, struct world *b) {
  struct checkpoint_item x[CHECKPOINT_MAX_ITEMS], y[CHECKPOINT_MAX_ITEMS];
  int count = update_items(a->update, x);
  assert_int_equal(update_items(b->update, y), count);
  update_save(a->update);
  update_save(b->update);
  for (int i = 0; i < count; i++)
    if (memcmp(x[i].data, y[i].data, checkpoint_item_bytes(&x[i])) != 0) return false;
  return true;
}

static void expect_published(struct world *w, int64_t version) {
  int64_t found;
  float published[MAX_P], own[MAX_P];
  const real *params = weights_acquire(w->weights, &found);
  w->inference->ops->download(w->inference, published, params, w->P);
  update_read_parameters(w->update, own);
  assert_int_equal(found, version);
  assert_true(weights_serial(w->weights, params) > 0);
  assert_memory_equal(published, own, w->P * sizeof(*own));
  weights_release(w->weights, params);
}

static void set_is_as_loaded(const char *agent, const char *device) {
  struct world *a = open_world(agent, device), *b = open_world(agent, device),
               *c = open_world(agent, device);
  struct asked asked = a_set(a);
  step(a, HALF), step(b, HALF), step(c, 2 * HALF);
  serve_now(a, &asked);
  assert_int_equal(asked.request.status, STATUS_OK);
  assert_int_equal(asked.request.version, HALF);
  expect_published(a, HALF);
  load_values(b);
  assert_true(same_state(a, b));
  step(a, HALF), step(b, HALF);
  assert_true(same_state(a, b));
  assert_false(same_state(a, c));
  assert_int_equal(update_version(a->update), 2 * HALF);
  close_world(a), close_world(b), close_world(c);
}

static void a_set_is_what_loading_it_would_be(void **state) {
  (void)state;
  set_is_as_loaded("vtrace", "cpu");
  set_is_as_loaded("r2d2", "cpu");
  set_is_as_loaded("r2d2", "guarded");
}

static void what_is_not_given_stays(void **state) {
  (void)state;
  struct world *w = open_world("vtrace", "ref");
  float before[MAX_P], after[MAX_P];
  const struct network_parameter *parameter = network_parameters(w->network, &w->count);
  struct asked asked = a_set(w);
  step(w, 1);
  update_read_parameters(w->update, before);
  for (int i = 0; i < w->count; i++) w->given[i] = i == 1;
  serve_now(w, &asked);
  update_read_parameters(w->update, after);
  for (int i = 0; i < w->count; i++)
    assert_memory_equal(after + parameter[i].offset,
                        (i == 1 ? w->values : before) + parameter[i].offset,
                        parameter[i].count * sizeof(float));
  close_world(w);
}

static void another_version_than_expected_changes_nothing(void **state) {
  (void)state;
  struct world *w = open_world("r2d2", "cpu"), *other = open_world("r2d2", "cpu");
  struct asked asked = a_set(w);
  step(w, HALF), step(other, HALF);
  asked.request.expected_version = HALF - 1;
  serve_now(w, &asked);
  assert_int_equal(asked.request.status, STATUS_MISMATCH);
  assert_non_null(strstr(asked.request.error.text, "at update 3, not at 2"));
  assert_true(same_state(w, other));
  asked = a_set(w);
  asked.request.expected_version = HALF;
  serve_now(w, &asked);
  assert_int_equal(asked.request.status, STATUS_OK);
  close_world(w), close_world(other);
}

/* ---- with a trainer */

static struct trainer *start(struct world *w, int batches) {
  struct trainer_config config = {.overlaps = w->device->ops->asynchronous};
  w->made.left = batches;
  struct trainer *trainer =
      trainer_create(&config, w->device, w->update, &w->made.source, w->weights, w->progress);
  trainer_start(trainer);
  return trainer;
}

static void wait_done(struct asked *asked) {
  while (!atomic_load(&asked->done)) clock_sleep_us(100);
}

static void one_that_waits_for_data_serves_at_once(void **state) {
  (void)state;
  struct world *w = open_world("vtrace", "cpu");
  struct trainer *trainer = start(w, HALF);
  float found[MAX_P];
  while (trainer_report(trainer).updates < HALF) clock_sleep_us(100);
  struct asked set = a_set(w), get = a_set(w), late = a_set(w);
  trainer_access(trainer, &set.request);
  wait_done(&set);
  get.request.sets = false;
  get.request.values = found;
  trainer_access(trainer, &get.request);
  wait_done(&get);
  assert_int_equal(get.request.version, HALF);
  assert_memory_equal(found, w->values, w->P * sizeof(*found));
  source_close(&w->made.source);
  trainer_join(trainer);
  trainer_access(trainer, &late.request);
  assert_true(atomic_load(&late.done));
  assert_int_equal(late.request.status, STATUS_UNAVAILABLE);
  trainer_destroy(trainer);
  close_world(w);
}

struct client {
  struct world *world;
  struct trainer *trainer;
  bool sets;
  pthread_t thread;
};

static void *ask_often(void *argument) {
  struct client *client = argument;
  float found[MAX_P];
  int64_t version = 0;
  for (int i = 0; i < REQUESTS; i++) {
    struct asked asked = a_set(client->world);
    asked.request.sets = client->sets;
    if (!client->sets) asked.request.values = found;
    trainer_access(client->trainer, &asked.request);
    wait_done(&asked);
    CHECK(asked.request.status == STATUS_OK, "%s", asked.request.error.text);
    CHECK(asked.request.version >= version, "version %lld", (long long)asked.request.version);
    version = asked.request.version;
  }
  return NULL;
}

/* Each batch is one update, whatever is asked for meanwhile. */
static void under_load_no_update_is_lost(void **state) {
  (void)state;
  struct world *w = open_world("vtrace", "cpu");
  struct trainer *trainer = start(w, ENDLESS);
  struct client client[3];
  for (int i = 0; i < 3; i++)
    client[i] = (struct client){.world = w, .trainer = trainer, .sets = i < 2};
  for (int i = 0; i < 3; i++) pthread_create(&client[i].thread, NULL, ask_often, &client[i]);
  for (int i = 0; i < 3; i++) pthread_join(client[i].thread, NULL);
  source_close(&w->made.source);
  trainer_join(trainer);
  int64_t updates = ENDLESS - w->made.left;
  assert_int_equal(update_version(w->update), updates);
  assert_int_equal(trainer_report(trainer).updates, updates);
  assert_int_equal(weights_version(w->weights), updates);
  expect_published(w, updates);
  trainer_destroy(trainer);
  close_world(w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_set_is_what_loading_it_would_be),
      cmocka_unit_test(what_is_not_given_stays),
      cmocka_unit_test(another_version_than_expected_changes_nothing),
      cmocka_unit_test(one_that_waits_for_data_serves_at_once),
      cmocka_unit_test(under_load_no_update_is_lost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
