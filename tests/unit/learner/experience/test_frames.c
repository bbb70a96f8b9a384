/* Stacked frames: where inference finds the past and what a gathered window holds of its footprint,
 * against plain histories, under random schedules with just enough pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "tests/unit/learner/experience/history.h"
#include "learner/device/create.h"
#include "tests/devices/guarded.h"

enum { STRIDE = 16, SLOTS = 5, STATE = 2 };

struct world {
  struct device *device;
  struct pages *pages;
  struct train_batch *batch;
  struct host_batch host; /* what is in batch */
  struct step_shape shape;
  int T, footprint;
  uint32_t life[SLOTS], draws;
  uint64_t step[SLOTS];
  int depth[SLOTS];
  int64_t gathered, frames_checked;
};

static int draw(struct world *w, int below) {
  return (int)(random_bits(4, 0, 0, w->draws++, RANDOM_TEST) % (uint64_t)below);
}

static void check_frame(struct world *w, const uint8_t *frame, int slot, uint32_t life,
                        uint64_t step) {
  uint64_t bits = history_bits(slot, life, step);
  for (size_t i = 0; i < STRIDE; i++) assert_int_equal(frame[i], history_byte(bits, i));
  w->frames_checked++;
}

static void check_row(struct world *w, int64_t row, int slot, uint32_t life, uint64_t step) {
  uint8_t frame[STRIDE];
  const uint8_t *observation = pages_rows(w->pages)->pool.observation;
  w->device->ops->download_bytes(w->device, frame, observation + row * STRIDE, STRIDE);
  device_finish(w->device);
  check_frame(w, frame, slot, life, step);
}

/* Steps before `step` in its episode, at most the footprint: from the flags alone. */
static int depth_at(const struct world *w, int slot, uint32_t life, uint64_t step) {
  int depth = 0;
  while (depth < w->footprint &&
         !(history_step(slot, life, step - (uint64_t)depth).flags & STEP_FIRST))
    depth++;
  return depth;
}

static void gather(struct world *w, const struct window *window) {
  int column = draw(w, w->batch->N);
  pages_gather(w->pages, w->device, w->batch, column, window, 1);
  pages_release(w->pages, window);
  host_batch_read(&w->host, w->device, w->batch);
  const struct train_batch *batch = w->host.batch;
  assert_true(history_matches(batch, column));
  int depth = depth_at(w, window->slot, window->life, window->first_step);
  assert_int_equal(batch->depth[column], depth);
  for (int k = 1; k <= depth; k++)
    check_frame(w, batch->observation + (column - k * batch->N) * STRIDE, window->slot,
                window->life, window->first_step - (uint64_t)k);
  w->gathered++;
}

static void step(struct world *w, int slot) {
  uint32_t life = w->life[slot];
  uint64_t now = w->step[slot];
  int depth = depth_at(w, slot, life, now);
  for (int k = 1; k <= depth; k++)
    check_row(w, pages_row_before(w->pages, slot, k), slot, life, now - (uint64_t)k);
  int64_t row = pages_try_append(pages_rows(w->pages), slot);
  struct pages_place place = {.row = row, .start = -1};
  if (row < 0) place = pages_append(w->pages, slot);
  assert_true(place.row >= 0); /* every step has a row */
  history_write(w->pages, w->device, &w->shape, &place, slot, life, now);
  if (place.start >= 0) pages_rows(w->pages)->start_depth[place.start] = depth;
  if (place.closes_window) gather(w, &place.window);
  w->step[slot]++;
}

static void begin(struct world *w, int slot, uint32_t life) {
  pages_begin_life(w->pages, slot, life);
  w->life[slot] = life;
  w->step[slot] = 0;
}

static void play(struct device *device, int operations, int T, int footprint) {
  struct world w = {.device = device, .T = T, .footprint = footprint};
  struct step_shape shape = w.shape = discrete_shape(STRIDE, STATE, footprint);
  struct pages_config config = {
      .num_slots = SLOTS, .page_steps = T, .shape = shape, .phase = PAGES_STAGGERED};
  w.pages = pages_create(w.device, &config);
  w.batch = train_batch_create(w.device, T, 3, &shape);
  w.host = host_batch_create(T, 3, &shape);
  uint32_t life = 0;
  for (int slot = 0; slot < SLOTS; slot++) begin(&w, slot, ++life);
  for (int i = 0; i < operations; i++) {
    int slot = draw(&w, SLOTS);
    if (draw(&w, 150) == 0)
      begin(&w, slot, ++life);
    else
      step(&w, slot);
  }
  assert_true(w.gathered > operations / 60 && w.frames_checked > operations / 2);
  /* A frame is there once: the pool is all that is allocated. */
  assert_int_equal(pages_observation_bytes(w.pages),
                   (size_t)pages_capacity_steps(w.pages) * STRIDE);
  for (int slot = 0; slot < SLOTS; slot++) pages_begin_life(w.pages, slot, ++life);
  assert_int_equal(pages_held(w.pages), 0);
  train_batch_destroy(w.device, w.batch);
  pages_destroy(w.pages);
  host_batch_destroy(&w.host);
}

static void windows_bring_the_frames_before_them(void **state) {
  (void)state;
  struct device *devices[] = {device_ref_float_create(), device_guarded_create()};
  for (int i = 0; i < 2; i++) {
    int operations = i == 0 ? 6000 : 1000;
    play(devices[i], operations, 7, 3);
    play(devices[i], operations, 20, 3);
    play(devices[i], operations, 4, 3);
    play(devices[i], operations, 5, 1);
    device_destroy(devices[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_bring_the_frames_before_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
