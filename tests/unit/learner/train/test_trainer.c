/* The trainer thread: updates are published, counters travel with checkpoints, a loss that is not
 * finite stops the run and leaves the parameters as they were. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/experience/fifo.h"
#include "learner/learn/algorithms.h"
#include "learner/train/peers.h"
#include "learner/train/trainer.h"
#include "tests/unit/support/any_device.h"
#include "tests/unit/support/discrete_shape.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/host_batch.h"
#include "tests/unit/support/episodes.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/temporary_folder.h"

enum { T = 4, N = 2, STRIDE = 16, PATIENCE_US = 120000000 };
enum { IMAGE_SIDE = 36, IMAGE_STRIDE = IMAGE_SIDE * IMAGE_SIDE };

/* What the trainer does with its source: "T": took a batch, "R": gave one back. */
struct logged {
  struct source source; /* first */
  struct source *inner;
  char log[64];
  int count, lent;
  /* Where that is not NULL: whether it had done all that it was given when a batch came back. */
  struct device *reads;
  uint64_t mark;
  bool was_done;
  /* Given in turn in the place of the inner source's, always at once, until it ends; or NULL. */
  struct train_batch *endless[2];
  atomic_bool ended;
};

struct fixture {
  struct device *device, *trainer_device; /* the test's thread is inference's */
  struct network *network;
  struct update *update;
  struct step_shape shape;
  struct pages *pages;
  struct source *source;
  struct logged logged; /* the same, as the trainer sees it */
  struct weights *weights;
  struct progress *progress;
  struct trainer *trainer;
  atomic_int saved;
  int lent_at_save; /* batches that the trainer held */
  struct metrics *metrics;
  struct metric *lag_updates;
};

static void count_saved(void *context) {
  struct fixture *f = context;
  f->lent_at_save = f->logged.lent;
  atomic_fetch_add(&f->saved, 1);
}

static const struct network_config mlp = {.network = "mlp",
                                          .head_size = 2,
                                          .value_size = 1,
                                          .inputs = {.row_stride = STRIDE,
                                                     .num_tensors = 1,
                                                     .tensor = {{DTYPE_FLOAT32, 4, 0}},
                                                     .discrete = 2},
                                          .num_layers = 1,
                                          .hidden = {8}};
static const struct network_config nature = {
    .network = "nature",
    .head_size = 2,
    .value_size = 1,
    .inputs = {.row_stride = IMAGE_STRIDE,
               .num_tensors = 1,
               .tensor = {{DTYPE_UINT8, IMAGE_STRIDE, 0, IMAGE_SIDE, IMAGE_SIDE, 1}},
               .discrete = 2}};

static void note(struct logged *logged, char what) {
  if (logged->count < (int)sizeof(logged->log) - 1) logged->log[logged->count++] = what;
}

static struct train_batch *take_endless(struct logged *logged) {
  if (atomic_load(&logged->ended)) return NULL;
  struct train_batch *batch = logged->endless[0];
  logged->endless[0] = logged->endless[1];
  logged->endless[1] = batch;
  return batch;
}

static struct train_batch *take_logged(struct source *source, int64_t wait_us) {
  struct logged *logged = (struct logged *)source;
  struct train_batch *batch =
      logged->endless[0] ? take_endless(logged) : logged->inner->ops->take(logged->inner, wait_us);
  if (!batch) return NULL;
  note(logged, 'T');
  logged->lent++;
  return batch;
}

static void release_logged(struct source *source, struct train_batch *batch) {
  struct logged *logged = (struct logged *)source;
  note(logged, 'R');
  logged->lent--;
  if (logged->reads) logged->was_done = logged->reads->ops->is_done(logged->reads, logged->mark);
  if (!logged->endless[0]) source_release(logged->inner, batch);
}

static const struct source_ops LOGGED = {.take = take_logged, .release = release_logged};

/* NULL: ref, or cpu for images. */
static const char *device_name;

static struct fixture *create_with(const struct network_config *network, char *decay) {
  struct fixture *f = calloc(1, sizeof(*f));
  struct error error;
  bool images = network == &nature;
  const char *device = device_name ? device_name : images ? "cpu" : "ref";
  size_t stride = network->inputs.row_stride;
  assert_int_equal(any_device_create(&f->device, device, &error), STATUS_OK);
  assert_int_equal(any_device_create(&f->trainer_device, device, &error), STATUS_OK);
  assert_int_equal(network_create(&f->network, network, &error), STATUS_OK);
  struct update_config update = {.policy = &policy_categorical,
                                 .algorithm.unroll_length = T,
                                 .num_windows = N,
                                 .window_steps = T,
                                 .algorithm.discount = 0.9,
                                 .algorithm.actor_critic.lambda = 1,
                                 .algorithm.actor_critic.rho_clip = 1,
                                 .algorithm.actor_critic.c_clip = 1,
                                 .algorithm.actor_critic.pg_rho_clip = 1,
                                 .algorithm.actor_critic.baseline_cost = 0.5,
                                 .algorithm.actor_critic.target_entropy = -1,
                                 .algorithm.loss_reduction = "mean",
                                 .optimizer.name = "adam",
                                 .optimizer.learning_rate = 0.01,
                                 .optimizer.learning_rate_decay = decay,
                                 .total_steps = 1000,
                                 .optimizer.adam_beta1 = 0.9,
                                 .optimizer.adam_beta2 = 0.999,
                                 .optimizer.adam_epsilon = 1e-7,
                                 .seed = 1};
  assert_int_equal(
      update_create(&f->update, f->trainer_device, f->network, &algorithm_vtrace, &update, &error),
      STATUS_OK);
  struct step_shape shape = f->shape = discrete_shape(stride, 0, 0);
  struct pages_config pages = {.num_slots = N, .page_steps = T, .shape = shape};
  f->pages = pages_create(f->device, &pages);
  bool overlaps = f->device->ops->asynchronous;
  struct fifo_config fifo = {.T = T, .N = N, .shape = shape, .lent_at_once = overlaps ? 2 : 1};
  f->source = fifo_create(f->device, f->trainer_device, &fifo);
  f->weights = weights_create(f->device, network_num_parameters(f->network));
  struct progress_config progress = {.target_return = NAN};
  f->progress = progress_create(&progress);
  f->metrics = metrics_create(2);
  struct trainer_config trainer = {
      .on_saved = count_saved,
      .context = f,
      .lag_updates = metrics_histogram(f->metrics, "policy/window_lag_updates", ""),
      .update_us = metrics_histogram(f->metrics, "train/update_us", ""),
      .overlaps = overlaps,
      .images = images};
  f->lag_updates = trainer.lag_updates;
  f->logged = (struct logged){.source = {&LOGGED}, .inner = f->source};
  f->trainer = trainer_create(&trainer, f->trainer_device, f->update, &f->logged.source, f->weights,
                              f->progress);
  for (int slot = 0; slot < N; slot++) pages_begin_life(f->pages, slot, 1);
  return f;
}

static struct fixture *create(void) {
  return create_with(&mlp, "none");
}

static struct fixture *create_for_images(void) {
  return create_with(&nature, "none");
}

static void destroy(struct fixture *f) {
  trainer_destroy(f->trainer);
  metrics_destroy(f->metrics);
  progress_destroy(f->progress);
  weights_destroy(f->weights);
  source_destroy(f->source);
  pages_destroy(f->pages);
  update_destroy(f->update);
  network_destroy(f->network);
  device_destroy(f->trainer_device);
  device_destroy(f->device);
  free(f);
}

/* Action 0, which had the probability 1/2. */
static void write_step(struct fixture *f, const struct pages_place *place, const void *observation,
                       float reward) {
  const int32_t action = 0, before = -1;
  const float behaviour = logf(0.5f);
  const struct host_step step = {.observation = observation,
                                 .action = &action,
                                 .previous_action = &before,
                                 .statistics = &behaviour,
                                 .reward = reward};
  host_step_file(f->pages, f->device, &f->shape, place, &step);
}

/* Steps of both slots until `batches` batches have been given. */
static void give_batches(struct fixture *f, int batches, float reward) {
  for (int step = 0; batches > 0; step++) {
    for (int slot = 0; slot < N; slot++) {
      struct pages_place place = pages_append(f->pages, slot);
      float x[STRIDE / sizeof(float)] = {(float)(step % 7) / 7};
      write_step(f, &place, x, reward);
      if (place.closes_window) batches -= source_give(f->source, f->pages, &place.window, 0);
    }
    source_flush(f->source, f->pages);
  }
}

static void wait_for_updates(struct fixture *f, int64_t updates) {
  int64_t deadline_us = clock_now_us() + PATIENCE_US;
  while (trainer_report(f->trainer).updates < updates) {
    assert_true(clock_now_us() < deadline_us);
    clock_sleep_us(100);
  }
}

static void stop(struct fixture *f) {
  source_close(f->source);
  trainer_join(f->trainer);
}

/* Parameters of another device, and of the fixture's. */
static void expect_same(struct fixture *f, struct device *device, const real *a, const real *b) {
  size_t P = update_num_parameters(f->update);
  float *x = check_alloc(P, sizeof(*x)), *y = check_alloc(P, sizeof(*y));
  device->ops->download(device, x, a, P);
  f->device->ops->download(f->device, y, b, P);
  assert_memory_equal(x, y, P * sizeof(*x));
  free(x);
  free(y);
}

static void every_batch_is_an_update_and_is_published(void **state) {
  (void)state;
  struct fixture *f = create();
  assert_int_equal(weights_version(f->weights), 0);
  trainer_start(f->trainer);
  give_batches(f, 5, 1);
  wait_for_updates(f, 5);
  stop(f);
  assert_int_equal(weights_version(f->weights), 5);
  /* All steps were taken with version 0: the windows' ages were 0 to 4. */
  assert_true(metric_mean_since(f->lag_updates, &(struct metric_sum){0}) == 2);
  assert_int_equal(trainer_report(f->trainer).trained_steps, 5 * T * N);
  int64_t version;
  const real *published = weights_acquire(f->weights, &version);
  expect_same(f, f->device, published, update_parameters(f->update));
  weights_release(f->weights, published);
  destroy(f);
}

static void a_requested_buffer_is_filled_once_at_a_step_border(void **state) {
  (void)state;
  struct fixture *f = create();
  trainer_start(f->trainer);
  trainer_request_save(f->trainer);
  trainer_request_save(f->trainer);
  give_batches(f, 3, 1);
  wait_for_updates(f, 3);
  stop(f);
  assert_int_equal(f->saved, 1);
  assert_int_equal(trainer_saved_updates(f->trainer), 1);
  destroy(f);
}

/* A network for images in the fixture's place: rows of 36 x 36 bytes. */
static void give_images(struct fixture *f, uint8_t first) {
  uint8_t image[IMAGE_STRIDE];
  for (int batches = 1, step = 0; batches > 0; step++) {
    for (int slot = 0; slot < N; slot++) {
      struct pages_place place = pages_append(f->pages, slot);
      memset(image, first + slot, IMAGE_STRIDE);
      write_step(f, &place, image, 0);
      if (place.closes_window) batches -= source_give(f->source, f->pages, &place.window, 0);
    }
    source_flush(f->source, f->pages);
  }
}

static void expect_images(struct fixture *f, int64_t updates, uint8_t first) {
  struct trainer_images images = trainer_images(f->trainer);
  assert_int_equal(images.count, N);
  assert_int_equal(images.updates, updates);
  for (int n = 0; n < N; n++)
    for (int i = 0; i < IMAGE_SIDE * IMAGE_SIDE; i++)
      assert_true(fabsf(images.image[n * IMAGE_SIDE * IMAGE_SIDE + i] - (float)(first + n) / 255) <
                  1e-6f);
}

/* After the first update, and with each buffer, of the batch of that update. A window begins with
 * the last step of the one before. */
static void images_of_what_is_seen_travel_with_the_buffer(void **state) {
  (void)state;
  struct fixture *f = create_for_images();
  assert_int_equal(trainer_images(f->trainer).count, 0);
  trainer_start(f->trainer);
  give_images(f, 10);
  wait_for_updates(f, 1);
  give_images(f, 20);
  wait_for_updates(f, 2);
  trainer_request_save(f->trainer);
  give_images(f, 30);
  wait_for_updates(f, 3);
  while (f->saved == 0) clock_sleep_us(100);
  int updates = (int)trainer_saved_updates(f->trainer);
  assert_in_range(updates, 2, 3); // the second may have been over, but not quite
  expect_images(f, updates, (uint8_t)(10 * (updates - 1)));
  trainer_release_save(f->trainer);
  give_images(f, 40);
  wait_for_updates(f, 4);
  stop(f);
  expect_images(f, updates, (uint8_t)(10 * (updates - 1)));
  destroy(f);

  f = create_for_images();
  trainer_start(f->trainer);
  give_images(f, 50);
  wait_for_updates(f, 1);
  stop(f);
  expect_images(f, 1, 50);
  destroy(f);
}

/* The first update is finished before the second is started: the images are of what it saw. */
static void the_first_images_are_of_the_first_update(void **state) {
  (void)state;
  struct fixture *f = create_for_images();
  give_images(f, 10);
  give_images(f, 20);
  trainer_start(f->trainer);
  wait_for_updates(f, 2);
  stop(f);
  assert_string_equal(f->logged.log, "TRTR");
  expect_images(f, 1, 10);
  destroy(f);
}

/* The items of one trainer, copied into another of the same shape. */
static void copy_items(struct trainer *to, struct trainer *from) {
  struct checkpoint_item a[CHECKPOINT_MAX_ITEMS], b[CHECKPOINT_MAX_ITEMS];
  int count = trainer_items(from, a);
  assert_int_equal(trainer_items(to, b), count);
  for (int i = 0; i < count; i++) memcpy(b[i].data, a[i].data, checkpoint_item_bytes(&a[i]));
}

static void counters_and_parameters_travel_together(void **state) {
  (void)state;
  struct fixture *f = create(), *g = create();
  progress_add_steps(f->progress, 1234);
  for (int i = 0; i < 3; i++) add_episode(f->progress, false, 0, 1, 1);
  trainer_start(f->trainer);
  give_batches(f, 4, 1);
  wait_for_updates(f, 4);
  stop(f);
  trainer_save_now(f->trainer);
  copy_items(g->trainer, f->trainer);
  trainer_load(g->trainer);
  assert_int_equal(trainer_counter(g->trainer, TRAINER_STEPS), 1234);
  assert_int_equal(trainer_counter(g->trainer, TRAINER_EPISODES), 3);
  assert_int_equal(trainer_report(g->trainer).trained_steps, 4 * T * N);
  assert_int_equal(weights_version(g->weights), 4);
  expect_same(f, g->device, update_parameters(g->update), update_parameters(f->update));
  destroy(f);
  destroy(g);
}

static void a_loss_that_is_not_finite_stops_the_run(void **state) {
  (void)state;
  struct fixture *f = create();
  trainer_start(f->trainer);
  give_batches(f, 1, 1);
  wait_for_updates(f, 1);
  real *before = f->device->ops->alloc(f->device, update_num_parameters(f->update) * sizeof(float));
  device_copy(f->device, before, update_parameters(f->update), update_num_parameters(f->update));
  give_batches(f, 1, NAN);
  int64_t deadline_us = clock_now_us() + PATIENCE_US;
  while (progress_stopped(f->progress) == STOP_NONE) assert_true(clock_now_us() < deadline_us);
  stop(f);
  assert_int_equal(progress_stopped(f->progress), STOP_ERROR);
  assert_int_equal(trainer_report(f->trainer).status, STATUS_CORRUPT);
  assert_non_null(strstr(trainer_report(f->trainer).error.text, "update 2"));
  expect_same(f, f->device, update_parameters(f->update), before);
  f->device->ops->release(f->device, before);
  destroy(f);
}

/* Both are there when the trainer starts. Every snapshot that was written is announced: the next is
 * the newest at once. */
static void a_batch_behind_a_skipped_one_changes_nothing(void **state) {
  (void)state;
  struct fixture *f = create();
  size_t P = update_num_parameters(f->update);
  real *before = f->device->ops->alloc(f->device, P * sizeof(float));
  device_copy(f->device, before, update_parameters(f->update), P);
  device_finish(f->device);
  give_batches(f, 1, NAN);
  give_batches(f, 1, 1);
  trainer_start(f->trainer);
  int64_t deadline_us = clock_now_us() + PATIENCE_US;
  while (progress_stopped(f->progress) == STOP_NONE) assert_true(clock_now_us() < deadline_us);
  stop(f);
  assert_string_equal(f->logged.log, f->device->ops->asynchronous ? "TTRR" : "TR");
  assert_non_null(strstr(trainer_report(f->trainer).error.text, "update 1"));
  assert_int_equal(update_version(f->update), 0);
  weights_publish(f->weights, f->trainer_device, update_parameters(f->update), 9);
  assert_int_equal(weights_version(f->weights), 9);
  expect_same(f, f->device, update_parameters(f->update), before);
  f->device->ops->release(f->device, before);
  destroy(f);
}

/* Of two batches that are there the second is started before the first is finished; each is given
 * back once, in order, and a checkpoint is of all that was started. */
static void updates_overlap_on_an_asynchronous_device(void **state) {
  (void)state;
  struct fixture *f = create();
  give_batches(f, 2, 1);
  trainer_start(f->trainer);
  wait_for_updates(f, 2);
  trainer_request_save(f->trainer);
  give_batches(f, 1, 1);
  wait_for_updates(f, 3);
  stop(f);
  assert_string_equal(f->logged.log, f->device->ops->asynchronous ? "TTRRTR" : "TRTRTR");
  assert_in_range(trainer_saved_updates(f->trainer), 2, 3); // the second may not have been over
  assert_int_equal(weights_version(f->weights), 3);
  destroy(f);
}

/* So that there always is an update to start, and none is reported before it is finished. */
static void a_buffer_is_filled_though_batches_never_end(void **state) {
  (void)state;
  struct fixture *f = create();
  for (int i = 0; i < 2; i++)
    f->logged.endless[i] = train_batch_create(f->trainer_device, T, N, &f->shape);
  trainer_start(f->trainer);
  wait_for_updates(f, 3);
  for (int i = 0; i < 300; i++) {
    int64_t reported = trainer_report(f->trainer).updates;
    assert_in_range(reported, 0, weights_version(f->weights));
    clock_sleep_us(20);
  }
  trainer_request_save(f->trainer);
  int64_t deadline_us = clock_now_us() + PATIENCE_US;
  while (!atomic_load(&f->saved)) assert_true(clock_now_us() < deadline_us);
  atomic_store(&f->logged.ended, true);
  trainer_join(f->trainer);
  assert_int_equal(f->lent_at_save, 0);
  assert_in_range(trainer_saved_updates(f->trainer), 3, update_version(f->update));
  struct train_batch *batch[] = {f->logged.endless[0], f->logged.endless[1]};
  struct device *device = f->trainer_device;
  f->trainer_device = NULL;
  destroy(f);
  for (int i = 0; i < 2; i++) train_batch_destroy(device, batch[i]);
  device_destroy(device);
}

static void the_learning_rate_follows_the_steps_of_the_run(void **state) {
  (void)state;
  struct fixture *f = create_with(&mlp, "linear");
  trainer_start(f->trainer);
  const double rates[] = {0.01, 0.006, 0.001};
  const int64_t steps[] = {0, 400, 500};
  for (int i = 0; i < 3; i++) {
    progress_add_steps(f->progress, steps[i]);
    give_batches(f, 1, 1);
    wait_for_updates(f, i + 1);
    assert_true(fabs(trainer_report(f->trainer).stats.learning_rate - rates[i]) < 1e-9);
  }
  stop(f);
  destroy(f);
}

/* ---- with other learners */

/* One that ends with a batch in hand, which its device may still read. */
static void a_batch_without_an_update_is_given_back_once_it_is_read(void **state) {
  (void)state;
  if (!device_name || strcmp(device_name, "cuda") != 0) return;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only"); /* whose streams are held */
  struct fixture *f = create();
  struct error error;
  struct peers *peers;
  char path[TEMPORARY_PATH_BYTES];
  snprintf(path, sizeof(path), "%s/peers", temporary_folder());
  const struct peers_config alone = {
      .path = path, .learners = 1, .timeout_ms = PATIENCE_US / 1000, .about = "same\n"};
  assert_int_equal(peers_open(&peers, &alone, &error), STATUS_OK);
  const struct trainer_config config = {.on_saved = count_saved, .context = f, .peers = peers};
  trainer_destroy(f->trainer);
  f->trainer = trainer_create(&config, f->trainer_device, f->update, &f->logged.source, f->weights,
                              f->progress);
  give_batches(f, 1, 1);
  progress_stop(f->progress, STOP_SIGNAL);
  emulated_cuda_hold();
  f->logged.reads = f->trainer_device;
  f->logged.mark = f->trainer_device->ops->mark(f->trainer_device);
  trainer_start(f->trainer);
  clock_sleep_us(50 * 1000); /* in which it would be given back */
  emulated_cuda_let_go();
  stop(f);
  assert_string_equal(f->logged.log, "TR");
  assert_true(f->logged.was_done);
  destroy(f);
  peers_close(peers);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_batch_is_an_update_and_is_published),
      cmocka_unit_test(a_requested_buffer_is_filled_once_at_a_step_border),
      cmocka_unit_test(images_of_what_is_seen_travel_with_the_buffer),
      cmocka_unit_test(the_first_images_are_of_the_first_update),
      cmocka_unit_test(counters_and_parameters_travel_together),
      cmocka_unit_test(a_loss_that_is_not_finite_stops_the_run),
      cmocka_unit_test(a_batch_behind_a_skipped_one_changes_nothing),
      cmocka_unit_test(updates_overlap_on_an_asynchronous_device),
      cmocka_unit_test(a_buffer_is_filled_though_batches_never_end),
      cmocka_unit_test(the_learning_rate_follows_the_steps_of_the_run),
      cmocka_unit_test(a_batch_without_an_update_is_given_back_once_it_is_read),
  };
  int failed = cmocka_run_group_tests(tests, temporary_folder_setup, temporary_folder_teardown);
  emulated_cuda_use();
  static const char *const devices[] = {"guarded", "cuda"};
  for (int i = 0; i < 2; i++) {
    device_name = devices[i];
    failed += cmocka_run_group_tests_name(device_name, tests, temporary_folder_setup,
                                          temporary_folder_teardown);
  }
  return failed;
}
