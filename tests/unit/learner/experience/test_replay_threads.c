/* The replay between an inference and a trainer thread: what is sampled is what was played, pages
 * are reused all the while, each side waits for the other exactly when it must, and a close ends
 * every wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/experience/replay.h"
#include "tests/unit/learner/experience/history.h"
#include "tests/unit/support/any_device.h"

enum { SLOTS = 6, STRIDE = 4, T = 10, BURN_IN = 4, PAGE = 8, N = 5, ROW_BYTES = 16, STATE = 2 };
enum { SPARE_PAGES = 30, PATIENCE_US = 30 * 1000 * 1000 };

struct world {
  struct device *filing, *gathering;
  struct step_shape shape;
  struct pages *pages;
  struct replay_config config;
  struct source *source;
  struct host_batch host; /* the trainer's */
  uint32_t life[SLOTS], lives, draws;
  uint64_t steps[SLOTS];
  int footprint;

  atomic_int batches; /* that the trainer has given back */
  atomic_int gives;
  atomic_bool draining, ended;
  uint64_t drawn; /* hash of the windows drawn, in order */
  int pause_us;   /* the trainer's, at most */
};

static const char *device_name;

static bool guarded(void) { /* each of its operations takes microseconds */
  return strcmp(device_name, "guarded") == 0;
}

static struct device *make_device(void) {
  struct device *device;
  struct error error;
  CHECK(any_device_create(&device, device_name, &error) == STATUS_OK, "%s", error.text);
  return device;
}

static void begin(struct world *w, int slot) {
  w->life[slot] = ++w->lives;
  w->steps[slot] = 0;
  pages_begin_life(w->pages, slot, w->life[slot]);
}

static struct world *create_with(double ratio, double band, int footprint, bool lockstep) {
  struct world *w = check_alloc(1, sizeof(*w));
  w->filing = make_device();
  w->gathering = make_device();
  w->footprint = footprint;
  w->shape = discrete_shape(ROW_BYTES, STATE, footprint);
  w->shape.statistics = 2;
  struct pages_config pages = {.num_slots = SLOTS,
                               .page_steps = PAGE,
                               .shape = w->shape,
                               .phase = PAGES_STAGGERED,
                               .stride = STRIDE,
                               .window_steps = T,
                               .replays = true};
  pages.num_pages = pages_needed(&pages) + SPARE_PAGES;
  w->pages = pages_create(w->filing, &pages);
  w->config = (struct replay_config){.N = N,
                                     .min_windows = 20,
                                     .ratio = ratio,
                                     .band = band,
                                     .exponent = 0.9,
                                     .importance = 0.6,
                                     .burn_in = BURN_IN,
                                     .priority = {.T = T - BURN_IN,
                                                  .counted = T - BURN_IN,
                                                  .n_steps = 3,
                                                  .discount = 0.9f,
                                                  .reward_scale = 1,
                                                  .eta = 0.9f},
                                     .seed = 7,
                                     .lockstep = lockstep};
  w->source = replay_create(w->gathering, w->filing, w->pages, &w->config);
  w->host = host_batch_create(T, N, &w->shape);
  for (int i = 0; i < SLOTS; i++) begin(w, i);
  return w;
}

static struct world *create(double ratio, double band) {
  return create_with(ratio, band, 0, false);
}

static void destroy(struct world *w) {
  source_destroy(w->source);
  pages_destroy(w->pages);
  host_batch_destroy(&w->host);
  device_destroy(w->filing);
  device_destroy(w->gathering);
  free(w);
}

/* ---- inference's side */

static int draw(struct world *w, int below) {
  return (int)(random_bits(5, 0, 0, w->draws++, RANDOM_TEST) % (uint64_t)below);
}

/* Steps before this one in its episode, at most the footprint. */
static int depth_at(const struct world *w, int slot, uint64_t step) {
  int depth = 0;
  while (depth < w->footprint &&
         !(history_step(slot, w->life[slot], step - (uint64_t)depth).flags & STEP_FIRST))
    depth++;
  return depth;
}

/* A step of a slot; true if it closed a window, which is in *window. */
static bool step(struct world *w, int slot, struct window *window) {
  struct pages_place place = {.row = pages_try_append(pages_rows(w->pages), slot), .start = -1};
  if (place.row < 0) place = pages_append(w->pages, slot);
  if (place.start >= 0)
    pages_rows(w->pages)->start_depth[place.start] = depth_at(w, slot, w->steps[slot]);
  history_write(w->pages, w->filing, &w->shape, &place, slot, w->life[slot], w->steps[slot]);
  w->steps[slot]++;
  *window = place.window;
  return place.closes_window;
}

/* Steps slots, each at a speed of its own, until a window closes; gives it. Lives end now and then.
 */
static bool give_next(struct world *w) {
  for (;;) {
    int slot = draw(w, SLOTS);
    struct window window;
    if (draw(w, 1 + slot) > 0) continue; /* the last slots are slow */
    if (draw(w, 300) == 0) begin(w, slot);
    if (!step(w, slot, &window)) continue;
    bool due = source_give(w->source, w->pages, &window, 0);
    atomic_fetch_add(&w->gives, 1);
    return due;
  }
}

static void *give_until_closed(void *argument) {
  struct world *w = argument;
  while (!atomic_load(&w->ended)) give_next(w);
  return NULL;
}

/* ---- the trainer's side */

/* The k-th frame before a window. */
static void check_frame(const uint8_t *frame, const struct window *window, int k) {
  uint64_t bits = history_bits(window->slot, window->life, window->first_step - (uint64_t)k);
  for (size_t i = 0; i < ROW_BYTES; i++)
    CHECK(frame[i] == history_byte(bits, i), "frame %d before a window", k);
}

/* The steps of every column are those that were played, with the frames before them. */
static void check_batch(struct world *w, const struct train_batch *batch) {
  host_batch_read(&w->host, w->gathering, batch);
  const struct train_batch *host = w->host.batch;
  for (int n = 0; n < N; n++) {
    const struct window *window = &host->window[n];
    CHECK(history_matches(host, n), "window at step %d of slot %d", (int)window->first_step,
          window->slot);
    for (int k = 1; k <= host->depth[n]; k++)
      check_frame(host->observation + (n - k * N) * ROW_BYTES, window, k);
    float weight = ((const float *)batch->weight.host)[n];
    CHECK(weight > 0 && weight <= 1, "weight %g", (double)weight);
  }
}

static void note_drawn(struct world *w, const struct train_batch *batch) {
  for (int n = 0; n < N; n++) {
    uint64_t word = (uint64_t)batch->window[n].start ^ batch->window[n].first_step << 20 ^
                    (uint64_t)batch->window[n].life << 44;
    w->drawn = (w->drawn ^ word) * 0x9e3779b97f4a7c15u;
  }
}

/* Of any size, and now and then no number at all. */
static float priority_of(int batch, int column) {
  uint64_t bits = random_bits(6, 0, (uint32_t)column, (uint32_t)batch, RANDOM_TEST);
  if (bits % 50 == 0) return NAN;
  return ldexpf((float)(bits >> 8 & 1023), (int)(bits >> 20 & 15) - 12);
}

static void *train(void *argument) {
  struct world *w = argument;
  struct train_batch *batch;
  while ((batch = source_take(w->source))) {
    int number = atomic_load(&w->batches);
    if (w->config.lockstep)
      CHECK(atomic_load(&w->draining), "a batch that inference waits not for");
    check_batch(w, batch);
    note_drawn(w, batch);
    uint64_t random = random_bits(2, 0, 0, (uint32_t)number, RANDOM_TEST);
    if (w->pause_us && random % 3 == 0) clock_sleep_us((int64_t)(random >> 8) % w->pause_us);
    for (int n = 0; n < N; n++) ((float *)batch->priority.host)[n] = priority_of(number, n);
    source_release(w->source, batch);
    atomic_fetch_add(&w->batches, 1);
  }
  return NULL;
}

/* ---- tests */

static void *look(void *argument) {
  struct world *w = argument;
  while (!atomic_load(&w->ended)) {
    struct source_counters counters = source_counters(w->source);
    double credit =
        w->config.ratio * (double)counters.windows_since - (double)counters.windows_sampled;
    CHECK(credit > -1e-6 && credit < w->config.band + 1e-6, "credit %g of %g", credit,
          w->config.band);
    clock_sleep_us(300);
  }
  return NULL;
}

/* Pages go round many times while windows are drawn from them; with the least band neither side
 * waits for ever. */
static void what_is_sampled_is_what_was_played(void **state) {
  (void)state;
  static const struct {
    double ratio;
    int footprint, pause_us;
  } rows[] = {{1, 0, 0}, {3, 3, 300}, {0.3, 0, 100}, {8, 3, 0}};
  for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
    double band = replay_least_band(N, rows[r].ratio, 1);
    struct world *w = create_with(rows[r].ratio, band, rows[r].footprint, false);
    w->pause_us = rows[r].pause_us;
    pthread_t trainer, looker;
    pthread_create(&trainer, NULL, train, w);
    pthread_create(&looker, NULL, look, w);
    int windows = guarded() ? 150 : 3000;
    for (int n = 0; n < windows; n++) give_next(w);
    source_drain(w->source); /* what is due is sampled */
    struct source_counters counters = source_counters(w->source);
    atomic_store(&w->ended, true);
    source_close(w->source);
    pthread_join(trainer, NULL);
    pthread_join(looker, NULL);
    assert_int_equal(counters.windows_given, windows);
    assert_int_equal(counters.batches_taken, atomic_load(&w->batches));
    assert_int_equal(counters.windows_sampled, N * counters.batches_taken);
    double left = rows[r].ratio * (double)counters.windows_since - (double)counters.windows_sampled;
    assert_true(left > -1e-6 && left < N);
    destroy(w);
  }
}

static void wait_until_full(struct world *w) {
  int64_t limit_us = clock_now_us() + PATIENCE_US;
  while (!source_counters(w->source).full) {
    assert_true(clock_now_us() < limit_us);
    clock_sleep_us(200);
  }
}

static void wait_for_windows(struct world *w, int64_t since) {
  int64_t limit_us = clock_now_us() + PATIENCE_US;
  while (source_counters(w->source).windows_since < since || !source_counters(w->source).full) {
    assert_true(clock_now_us() < limit_us);
    clock_sleep_us(200);
  }
}

/* Inference waits when one window more would exceed the band, and goes on as soon as a batch is
 * taken, not when it is given back. */
static void inference_waits_at_the_band(void **state) {
  (void)state;
  struct world *w = create(2, 31);
  pthread_t inference;
  pthread_create(&inference, NULL, give_until_closed, w);
  wait_until_full(w);
  clock_sleep_us(3000);
  struct source_counters counters = source_counters(w->source);
  assert_int_equal(counters.windows_since, 15); /* 2 x 15 <= 31 < 2 x 16 */
  assert_int_equal(counters.windows_sampled, 0);

  struct train_batch *batch = source_take(w->source); /* 5 windows: there is room for 36 in all */
  wait_for_windows(w, 18);
  clock_sleep_us(3000);
  counters = source_counters(w->source);
  assert_int_equal(counters.windows_since, 18);
  assert_true(counters.give_wait_us > 0 && counters.busy_us > 0);
  source_release(w->source, batch);
  clock_sleep_us(3000);
  assert_int_equal(source_counters(w->source).windows_since, 18);

  atomic_store(&w->ended, true);
  source_close(w->source);
  pthread_join(inference, NULL);
  assert_false(source_counters(w->source).full);
  destroy(w);
}

static void *take_once(void *argument) {
  struct world *w = argument;
  struct train_batch *batch = source_take(w->source);
  atomic_store(&w->batches, batch ? 1 : 2);
  if (batch) source_release(w->source, batch);
  return NULL;
}

static void wait_for_take(struct world *w) {
  int64_t limit_us = clock_now_us() + PATIENCE_US;
  while (source_counters(w->source).take_wait_us < 3000) {
    assert_true(clock_now_us() < limit_us);
    clock_sleep_us(200);
  }
}

/* The trainer waits for min_windows, and from then on for as many as a batch is due for. */
static void the_trainer_waits_for_its_windows(void **state) {
  (void)state;
  struct world *w = create(0.5, 100);
  pthread_t trainer;
  pthread_create(&trainer, NULL, take_once, w);
  wait_for_take(w);
  for (int n = 0; n < 20 + 9; n++) assert_false(give_next(w));
  assert_int_equal(source_counters(w->source).windows_since, 9);
  clock_sleep_us(3000);
  assert_int_equal(atomic_load(&w->batches), 0);
  assert_true(give_next(w)); /* half of 10 windows are a batch */
  pthread_join(trainer, NULL);
  assert_int_equal(atomic_load(&w->batches), 1);
  destroy(w);
}

/* In lockstep batches are drawn only while inference waits: whatever the trainer's speed, the
 * same windows are drawn. drains: whenever a batch is due; else for want of room alone, as where a
 * resumed run begins far behind. */
static uint64_t play_in_lockstep(bool drains, int pause_us) {
  struct world *w = create_with(2, replay_least_band(N, 2, 1), 0, true);
  w->pause_us = pause_us;
  atomic_store(&w->draining, !drains); /* any give may, then */
  pthread_t trainer;
  pthread_create(&trainer, NULL, train, w);
  for (int n = 0; n < (guarded() ? 60 : 200); n++) {
    if (!give_next(w) || !drains) continue;
    atomic_store(&w->draining, true);
    source_drain(w->source);
    atomic_store(&w->draining, false);
    struct source_counters counters = source_counters(w->source);
    assert_int_equal(counters.windows_sampled,
                     2 * counters.windows_since - 2 * counters.windows_since % N);
  }
  source_close(w->source);
  pthread_join(trainer, NULL);
  uint64_t drawn = w->drawn;
  assert_true(atomic_load(&w->batches) > 10);
  destroy(w);
  return drawn;
}

static void lockstep_draws_the_same_windows(void **state) {
  (void)state;
  for (int drains = 0; drains < 2; drains++) {
    uint64_t drawn = play_in_lockstep(drains, 0);
    assert_true(drawn == play_in_lockstep(drains, 0));
    assert_true(drawn == play_in_lockstep(drains, 1000));
  }
}

/* ---- closing */

static void close_wakes_the_trainer(void **state) {
  (void)state;
  struct world *w = create(1, 100);
  pthread_t trainer;
  pthread_create(&trainer, NULL, take_once, w);
  wait_for_take(w);
  source_close(w->source);
  pthread_join(trainer, NULL);
  assert_int_equal(atomic_load(&w->batches), 2);
  assert_null(source_take(w->source));
  destroy(w);
}

static void close_wakes_inference_and_gives_drop(void **state) {
  (void)state;
  struct world *w = create(1, N + 1);
  pthread_t inference;
  pthread_create(&inference, NULL, give_until_closed, w);
  wait_until_full(w);
  int64_t given = source_counters(w->source).windows_given;
  atomic_store(&w->ended, true);
  source_close(w->source);
  pthread_join(inference, NULL);
  assert_int_equal(source_counters(w->source).windows_given, given);
  assert_false(give_next(w));
  assert_int_equal(source_counters(w->source).windows_given, given);
  source_drain(w->source);
  for (int i = 0; i < SLOTS; i++) begin(w, i);
  assert_int_equal(pages_held(w->pages), 0); /* what was dropped was released */
  destroy(w);
}

static void *drain(void *argument) {
  struct world *w = argument;
  source_drain(w->source);
  atomic_store(&w->ended, true);
  return NULL;
}

/* Drain waits for what is lent and what is due; a close ends it, and the trainer may end its
 * update after that. */
static void close_wakes_drain(void **state) {
  (void)state;
  struct world *w = create(1, 100);
  while (!give_next(w)) {
  }
  struct train_batch *batch = source_take(w->source);
  pthread_t inference;
  pthread_create(&inference, NULL, drain, w);
  wait_until_full(w);
  clock_sleep_us(3000);
  assert_false(atomic_load(&w->ended));
  source_close(w->source);
  pthread_join(inference, NULL);
  check_batch(w, batch);
  source_release(w->source, batch);
  assert_int_equal(source_counters(w->source).busy_us, 0);
  destroy(w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_sampled_is_what_was_played),
      cmocka_unit_test(inference_waits_at_the_band),
      cmocka_unit_test(the_trainer_waits_for_its_windows),
      cmocka_unit_test(lockstep_draws_the_same_windows),
      cmocka_unit_test(close_wakes_the_trainer),
      cmocka_unit_test(close_wakes_inference_and_gives_drop),
      cmocka_unit_test(close_wakes_drain),
  };
  int failed = 0;
  static const char *const devices[] = {"ref", "guarded"};
  for (int i = 0; i < 2; i++) {
    device_name = devices[i];
    failed += cmocka_run_group_tests_name(device_name, tests, NULL, NULL);
  }
  return failed;
}
