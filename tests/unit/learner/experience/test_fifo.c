/* The FIFO between an inference and a trainer thread, windows compared with their histories
 * (history.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "learner/experience/fifo.h"
#include "tests/unit/learner/experience/history.h"
#include "tests/unit/support/any_device.h"
#include "tests/unit/support/aborts.h"
#include "tests/unit/support/emulated_cuda.h"

enum {
  SLOTS = 5,
  T = 4,
  N = 3,
  STRIDE = 16,
  STATE = 2,
  PATIENCE_US = 20 * 1000 * 1000,
  HELD_US = 50000
};

struct world {
  struct device *device, *trainer_device;
  struct step_shape shape;
  struct pages *pages;
  struct source *source;
  struct host_batch host;
  struct metrics *metrics;
  struct metric *give_wait_us;
  uint64_t steps[SLOTS];
  int next_slot;
  atomic_int progress; /* of the thread under test */
};

static const char *device_name;
static int lent_at_once = 1;

static struct device *make_device(void) {
  struct device *device;
  struct error error;
  assert_int_equal(any_device_create(&device, device_name, &error), STATUS_OK);
  return device;
}

static struct world *world_create_with(int64_t max_lag, bool synchronous) {
  struct world *world = calloc(1, sizeof *world);
  world->device = make_device();
  world->trainer_device = make_device();
  struct step_shape shape = world->shape = discrete_shape(STRIDE, STATE, 0);
  world->host = host_batch_create(T, N, &shape);
  struct pages_config pages = {
      .num_slots = SLOTS, .page_steps = T, .shape = shape, .phase = PAGES_STAGGERED};
  world->pages = pages_create(world->device, &pages);
  world->metrics = metrics_create(1);
  world->give_wait_us = metrics_histogram(world->metrics, "fifo/wait_us", "");
  struct fifo_config fifo = {.T = T,
                             .N = N,
                             .shape = shape,
                             .max_lag = max_lag,
                             .synchronous = synchronous,
                             .lent_at_once = lent_at_once,
                             .give_wait_us = world->give_wait_us};
  world->source = fifo_create(world->device, world->trainer_device, &fifo);
  for (int i = 0; i < SLOTS; i++) pages_begin_life(world->pages, i, 1);
  return world;
}

static struct world *world_create(int64_t max_lag) {
  return world_create_with(max_lag, false);
}

static void world_destroy(struct world *world) {
  source_destroy(world->source);
  metrics_destroy(world->metrics);
  pages_destroy(world->pages);
  host_batch_destroy(&world->host);
  device_destroy(world->device);
  device_destroy(world->trainer_device);
  free(world);
}

/* Steps the slots in turn until a window closes. */
static struct window next_window(struct world *world) {
  for (;;) {
    int slot = world->next_slot;
    world->next_slot = (slot + 1) % SLOTS;
    struct pages_place place = pages_append(world->pages, slot);
    history_write(world->pages, world->device, &world->shape, &place, slot, 1,
                  world->steps[slot]++);
    if (place.closes_window) return place.window;
  }
}

/* On the trainer's side. */
static bool matches(struct world *world, const struct train_batch *batch, int column) {
  host_batch_read(&world->host, world->trainer_device, batch);
  return history_matches(world->host.batch, column);
}

/* The version that the window's first step was chosen with. */
static int64_t version_of(const struct window *window) {
  return history_step(window->slot, window->life, window->first_step).version;
}

static bool give_next(struct world *world) {
  struct window window = next_window(world);
  bool full = source_give(world->source, world->pages, &window, version_of(&window));
  source_flush(world->source, world->pages);
  return full;
}

static void wait_for(atomic_int *progress, int value) {
  int64_t limit_us = clock_now_us() + PATIENCE_US;
  while (atomic_load(progress) < value) {
    assert_true(clock_now_us() < limit_us);
    clock_sleep_us(200);
  }
}

static bool same_window(const struct window *a, const struct window *b) {
  return a->slot == b->slot && a->life == b->life && a->first_step == b->first_step;
}

/* In every other batch the windows wait for each other, on a device where they can. */
static bool gathered_together(const struct world *world, int batch) {
  return world->device->ops->asynchronous && batch % 2;
}

static void test_windows_come_out_in_order_and_whole(void **state) {
  (void)state;
  struct world *world = world_create(0);
  struct window given[N];
  for (int batches = 0; batches < 20; batches++) {
    for (int i = 0; i < N; i++) {
      assert_int_equal(source_counters(world->source).open_windows, i);
      given[i] = next_window(world);
      int held = pages_held(world->pages);
      bool full = source_give(world->source, world->pages, &given[i], 0);
      assert_int_equal(full, i == N - 1);
      if (gathered_together(world, batches) && !full) continue;
      source_flush(world->source, world->pages);
      int released = gathered_together(world, batches) ? N : 1;
      assert_int_equal(pages_held(world->pages), held - released);
    }
    struct train_batch *batch = source_take(world->source);
    assert_non_null(batch);
    assert_int_equal(batch->num_windows, N);
    for (int i = 0; i < N; i++) {
      assert_true(same_window(&batch->window[i], &given[i]));
      assert_true(matches(world, batch, i));
    }
    source_release(world->source, batch);
  }
  struct source_counters counters = source_counters(world->source);
  assert_int_equal(counters.windows_given, 20 * N);
  assert_int_equal(counters.batches_taken, 20);
  assert_int_equal(counters.windows_dropped_lag, 0);
  assert_false(counters.full);
  world_destroy(world);
}

/* Only the gathers are held: the trainer's stream could run, and waits for them. */
static void test_a_batch_is_taken_before_it_is_gathered(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) return;
  struct world *world = world_create(0);
  struct window given[N];
  for (int i = 0; i < N; i++) given[i] = next_window(world);
  emulated_cuda_hold();
  for (int i = 0; i < N; i++) source_give(world->source, world->pages, &given[i], 0);
  source_flush(world->source, world->pages);
  emulated_cuda_spare();
  struct train_batch *batch = source_take(world->source);
  struct device *trainer = world->trainer_device;
  uint64_t mark = trainer->ops->mark(trainer);
  clock_sleep_us(HELD_US);
  bool is_early = trainer->ops->is_done(trainer, mark);
  emulated_cuda_let_go();
  assert_false(is_early);
  for (int i = 0; i < N; i++) assert_true(matches(world, batch, i));
  source_release(world->source, batch);
  world_destroy(world);
}

static void test_old_windows_are_dropped_and_counted(void **state) {
  (void)state;
  static const struct {
    int64_t max_lag, lag;
    bool dropped;
  } rows[] = {{0, 1000000, false}, {10, 0, false}, {10, 10, false}, {10, 11, true}, {1, 2, true}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct world *world = world_create(rows[i].max_lag);
    struct window window = next_window(world);
    int held = pages_held(world->pages);
    source_give(world->source, world->pages, &window, version_of(&window) + rows[i].lag);
    source_flush(world->source, world->pages);
    struct source_counters counters = source_counters(world->source);
    assert_int_equal(counters.windows_dropped_lag, rows[i].dropped);
    assert_int_equal(counters.windows_given, !rows[i].dropped);
    assert_int_equal(counters.open_windows, !rows[i].dropped);
    assert_int_equal(pages_held(world->pages), held - 1);

    /* What comes next takes the dropped one's place. */
    for (int n = rows[i].dropped ? 0 : 1; n < N; n++)
      assert_int_equal(give_next(world), n == N - 1);
    struct train_batch *batch = source_take(world->source);
    for (int n = 0; n < N; n++) assert_true(matches(world, batch, n));
    assert_int_equal(same_window(&batch->window[0], &window), !rows[i].dropped);
    source_release(world->source, batch);
    world_destroy(world);
  }
}

/* Synchronous: a window is dropped if parameters are newer than its last step, however new. */
static void test_synchronous_windows_end_with_the_newest_parameters(void **state) {
  (void)state;
  for (int lag = 0; lag < 2; lag++) {
    struct world *world = world_create_with(0, true);
    struct window window = next_window(world);
    int64_t last = history_step(window.slot, window.life, window.first_step + T - 1).version;
    source_give(world->source, world->pages, &window, last + lag);
    assert_int_equal(source_counters(world->source).windows_dropped_lag, lag);
    assert_int_equal(source_counters(world->source).windows_given, !lag);
    world_destroy(world);
  }
}

/* ---- two threads */

enum { BATCHES = 400 };

/* Windows of a batch are whole, and each follows the one before it of its slot. */
static void check_windows(struct world *world, const struct train_batch *batch,
                          uint64_t next_step[SLOTS]) {
  for (int i = 0; i < N; i++) {
    const struct window *window = &batch->window[i];
    bool follows = window->first_step == next_step[window->slot] || next_step[window->slot] == 0;
    next_step[window->slot] = window->first_step + T;
    if (batch->num_windows != N || !follows || !matches(world, batch, i)) abort();
  }
}

/* Before a batch goes back it is still what it was when it was taken. */
static void give_back(struct world *world, struct train_batch *batch) {
  for (int i = 0; i < N; i++)
    if (!matches(world, batch, i)) abort();
  source_release(world->source, batch);
  atomic_fetch_add(&world->progress, 1);
}

/* Holds two batches where it may, and there are two. */
static void *train(void *argument) {
  struct world *world = argument;
  struct train_batch *held = NULL, *next;
  uint64_t next_step[SLOTS] = {0};
  for (;;) {
    next = held && lent_at_once == 1 ? NULL
           : held                    ? source_try_take(world->source)
                                     : source_take(world->source);
    if (!held && !next) return NULL;
    uint64_t random = random_bits(2, 0, 0, (uint32_t)atomic_load(&world->progress), RANDOM_TEST);
    if (random % 3 == 0) clock_sleep_us((int64_t)(random >> 8 & 255));
    if (next) check_windows(world, next, next_step);
    if (held) give_back(world, held);
    held = next;
  }
}

static void test_no_window_is_lost_between_two_threads(void **state) {
  (void)state;
  struct world *world = world_create(0);
  pthread_t trainer;
  pthread_create(&trainer, NULL, train, world);
  int full = 0;
  for (uint32_t n = 0; n < BATCHES * N; n++) {
    full += give_next(world);
    uint64_t random = random_bits(3, 0, 0, n, RANDOM_TEST);
    if (random % 16 == 0) clock_sleep_us((int64_t)(random >> 8 & 127));
  }
  source_drain(world->source);
  assert_int_equal(source_counters(world->source).batches_taken, BATCHES);
  assert_int_equal(source_counters(world->source).windows_given, BATCHES * N);
  assert_int_equal(full, BATCHES);
  source_close(world->source);
  pthread_join(trainer, NULL);
  assert_int_equal(atomic_load(&world->progress), BATCHES);
  world_destroy(world);
}

static void test_no_window_is_lost_where_two_batches_are_lent(void **state) {
  lent_at_once = 2;
  test_no_window_is_lost_between_two_threads(state);
  lent_at_once = 1;
}

/* Both batches full: inference waits, and says so, until the trainer gives one back. */
static void *give_until_dropped(void *argument) {
  struct world *world = argument;
  while (atomic_load(&world->progress) < 3 * N) {
    give_next(world);
    atomic_fetch_add(&world->progress, 1);
  }
  return NULL;
}

static void wait_until_full(struct world *world) {
  int64_t limit_us = clock_now_us() + PATIENCE_US;
  while (!source_counters(world->source).full) {
    assert_true(clock_now_us() < limit_us);
    clock_sleep_us(200);
  }
}

static void test_inference_waits_while_both_are_full(void **state) {
  (void)state;
  struct world *world = world_create(0);
  pthread_t inference;
  pthread_create(&inference, NULL, give_until_dropped, world);
  wait_until_full(world);
  assert_int_equal(atomic_load(&world->progress), 2 * N);
  assert_int_equal(source_counters(world->source).busy_us, 0);

  struct train_batch *batch = source_take(world->source);
  clock_sleep_us(20000);
  struct source_counters counters = source_counters(world->source);
  assert_true(counters.full);
  assert_true(counters.busy_us >= 20000);
  assert_true(counters.give_wait_us >= 20000);
  assert_int_equal(counters.take_wait_us, 0);
  assert_int_equal(atomic_load(&world->progress), 2 * N);

  /* One given back: the full one is ready at once, inference goes on until both are full again or
   * all is given. */
  source_release(world->source, batch);
  batch = source_take(world->source);
  wait_for(&world->progress, 3 * N);
  pthread_join(inference, NULL);
  int64_t waited_us = source_counters(world->source).give_wait_us;
  clock_sleep_us(3000);
  assert_false(source_counters(world->source).full);
  assert_int_equal(source_counters(world->source).give_wait_us, waited_us);
  double mean_us = metric_mean_since(world->give_wait_us, &(struct metric_sum){0});
  assert_true(mean_us > 0 && mean_us <= (double)waited_us);
  source_release(world->source, batch);
  assert_int_equal(source_counters(world->source).busy_us, 0);
  world_destroy(world);
}

static void *take_once(void *argument) {
  struct world *world = argument;
  struct train_batch *batch = source_take(world->source);
  atomic_store(&world->progress, batch ? 1 : 2);
  if (batch) source_release(world->source, batch);
  return NULL;
}

static void test_the_trainer_waits_for_a_whole_batch(void **state) {
  (void)state;
  struct world *world = world_create(0);
  pthread_t trainer;
  pthread_create(&trainer, NULL, take_once, world);
  for (int i = 0; i < N - 1; i++) give_next(world);
  int64_t limit_us = clock_now_us() + PATIENCE_US;
  while (source_counters(world->source).take_wait_us < 5000) assert_true(clock_now_us() < limit_us);
  assert_int_equal(atomic_load(&world->progress), 0);
  assert_true(give_next(world));
  pthread_join(trainer, NULL);
  assert_int_equal(atomic_load(&world->progress), 1);
  assert_int_equal(source_counters(world->source).give_wait_us, 0);
  world_destroy(world);
}

static void *drain(void *argument) {
  struct world *world = argument;
  source_drain(world->source);
  atomic_store(&world->progress, 1);
  return NULL;
}

static void test_drain_waits_for_the_trainer(void **state) {
  (void)state;
  struct world *world = world_create(0);
  source_drain(world->source);
  for (int i = 0; i < 2 * N; i++) give_next(world);
  pthread_t inference;
  pthread_create(&inference, NULL, drain, world);
  wait_until_full(world);
  for (int batches = 0; batches < 2; batches++) {
    struct train_batch *batch = source_take(world->source);
    clock_sleep_us(5000);
    assert_int_equal(atomic_load(&world->progress), 0);
    source_release(world->source, batch);
  }
  pthread_join(inference, NULL);
  assert_true(source_counters(world->source).give_wait_us >= 10000);
  world_destroy(world);
}

/* ---- closing */

static void test_close_wakes_the_trainer(void **state) {
  (void)state;
  struct world *world = world_create(0);
  pthread_t trainer;
  pthread_create(&trainer, NULL, take_once, world);
  give_next(world);
  int64_t limit_us = clock_now_us() + PATIENCE_US;
  while (source_counters(world->source).take_wait_us < 1000) assert_true(clock_now_us() < limit_us);
  source_close(world->source);
  pthread_join(trainer, NULL);
  assert_int_equal(atomic_load(&world->progress), 2);
  world_destroy(world);
}

static void test_close_wakes_inference_and_gives_drop(void **state) {
  (void)state;
  struct world *world = world_create(0);
  pthread_t inference;
  pthread_create(&inference, NULL, give_until_dropped, world);
  wait_until_full(world);
  source_close(world->source);
  pthread_join(inference, NULL);
  struct source_counters counters = source_counters(world->source);
  assert_false(counters.full);
  assert_int_equal(counters.windows_given, 2 * N);
  assert_int_equal(counters.windows_dropped_lag, 0);
  /* Dropped windows are released: only the pages being filled are held. */
  assert_int_equal(pages_held(world->pages), SLOTS);
  assert_null(source_take(world->source));
  assert_false(give_next(world));
  source_drain(world->source);
  world_destroy(world);
}

static void test_close_wakes_drain(void **state) {
  (void)state;
  struct world *world = world_create(0);
  for (int i = 0; i < N; i++) give_next(world);
  pthread_t inference;
  pthread_create(&inference, NULL, drain, world);
  struct train_batch *batch = source_take(world->source);
  clock_sleep_us(2000);
  source_close(world->source);
  pthread_join(inference, NULL);
  /* The trainer ends its step after the close. */
  assert_true(matches(world, batch, 0));
  source_release(world->source, batch);
  world_destroy(world);
}

struct attempt {
  struct world *world;
  struct train_batch *batch;
};

static void release_again(void *subject, int what) {
  (void)what;
  const struct attempt *attempt = subject;
  source_release(attempt->world->source, attempt->batch);
}

static void test_a_batch_is_released_once(void **state) {
  (void)state;
  struct world *world = world_create(0);
  for (int i = 0; i < N; i++) give_next(world);
  struct train_batch *batch = source_take(world->source);
  source_release(world->source, batch);
  assert_true(aborts(release_again, &(struct attempt){world, batch}, 0));
  world_destroy(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_windows_come_out_in_order_and_whole),
      cmocka_unit_test(test_old_windows_are_dropped_and_counted),
      cmocka_unit_test(test_synchronous_windows_end_with_the_newest_parameters),
      cmocka_unit_test(test_no_window_is_lost_between_two_threads),
      cmocka_unit_test(test_no_window_is_lost_where_two_batches_are_lent),
      cmocka_unit_test(test_inference_waits_while_both_are_full),
      cmocka_unit_test(test_the_trainer_waits_for_a_whole_batch),
      cmocka_unit_test(test_drain_waits_for_the_trainer),
      cmocka_unit_test(test_close_wakes_the_trainer),
      cmocka_unit_test(test_close_wakes_inference_and_gives_drop),
      cmocka_unit_test(test_close_wakes_drain),
      cmocka_unit_test(test_a_batch_is_released_once),
  };
  /* Each side has a stream: the order between them is what these are about. */
  const struct CMUnitTest between_streams[] = {
      cmocka_unit_test(test_a_batch_is_taken_before_it_is_gathered),
      cmocka_unit_test(test_windows_come_out_in_order_and_whole),
      cmocka_unit_test(test_no_window_is_lost_between_two_threads),
      cmocka_unit_test(test_no_window_is_lost_where_two_batches_are_lent),
  };
  int failed = 0;
  static const char *const devices[] = {"ref", "guarded"};
  for (int i = 0; i < 2; i++) {
    device_name = devices[i];
    failed += cmocka_run_group_tests_name(device_name, tests, NULL, NULL);
  }
  emulated_cuda_use();
  device_name = "cuda";
  return failed + cmocka_run_group_tests_name(device_name, between_streams, NULL, NULL);
}
