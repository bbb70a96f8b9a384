/* Stacked frames: what inference sees of the past and what a gathered window holds of its
 * footprint, against plain histories, under random schedules with just enough pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "learner/experience/frames.h"
#include "tests/unit/learner/experience/history.h"

enum { STRIDE = 16, SLOTS = 5, STATE = 2 };

struct world {
  struct device *device;
  struct pages *pages;
  struct train_batch *batch;
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
  pages_gather(w->pages, w->batch, column, window);
  assert_true(history_matches(w->batch, column));
  int depth = depth_at(w, window->slot, window->life, window->first_step);
  assert_int_equal(w->batch->depth[column], depth);
  for (int k = 0; k < depth; k++)
    check_frame(w, w->batch->older + (size_t)(k * w->batch->N + column) * STRIDE, window->slot,
                window->life, window->first_step - (uint64_t)k - 1);
  w->gathered++;
}

static void step(struct world *w, int slot) {
  uint32_t life = w->life[slot];
  uint64_t now = w->step[slot];
  int depth = depth_at(w, slot, life, now);
  for (int k = 1; k <= depth; k++)
    check_frame(w, pages_observation_before(w->pages, slot, k), slot, life, now - (uint64_t)k);
  int64_t row = pages_try_append(pages_rows(w->pages), slot);
  struct pages_place place = {.row = row};
  if (row < 0) place = pages_append(w->pages, slot);
  assert_true(place.row >= 0); /* every step has a row */
  history_write(w->pages, &place, STRIDE, STATE, slot, life, now);
  if (place.starts_window) pages_rows(w->pages)->start_depth[place.page] = depth;
  if (place.closes_window) gather(w, &place.window);
  w->step[slot]++;
}

static void begin(struct world *w, int slot, uint32_t life) {
  pages_begin_life(w->pages, slot, life);
  w->life[slot] = life;
  w->step[slot] = 0;
}

static void play(int T, int footprint) {
  struct world w = {.device = device_ref_float_create(), .T = T, .footprint = footprint};
  struct step_shape shape = discrete_shape(STRIDE, STATE, footprint);
  struct pages_config config = {SLOTS, pages_needed(SLOTS, footprint), T, shape, true};
  w.pages = pages_create(w.device, &config);
  w.batch = train_batch_create(w.device, T, 3, &shape);
  uint32_t life = 0;
  for (int slot = 0; slot < SLOTS; slot++) begin(&w, slot, ++life);
  for (int i = 0; i < 6000; i++) {
    int slot = draw(&w, SLOTS);
    if (draw(&w, 150) == 0)
      begin(&w, slot, ++life);
    else
      step(&w, slot);
  }
  assert_true(w.gathered > 100 && w.frames_checked > 3000);
  /* A frame is there once: the pool is all that is allocated. */
  assert_int_equal(pages_observation_bytes(w.pages),
                   (size_t)pages_capacity_steps(w.pages) * STRIDE);
  for (int slot = 0; slot < SLOTS; slot++) pages_begin_life(w.pages, slot, ++life);
  assert_int_equal(pages_held(w.pages), 0);
  train_batch_destroy(w.device, w.batch);
  pages_destroy(w.pages);
  device_destroy(w.device);
}

static void windows_bring_the_frames_before_them(void **state) {
  (void)state;
  play(7, 3);
  play(20, 3);
  play(3, 3);
  play(5, 1);
}

static void slots_without_pages_remember_their_last_frames(void **state) {
  (void)state;
  enum { FOOTPRINT = 3 };
  struct world w = {.device = device_ref_float_create(), .footprint = FOOTPRINT};
  struct frames *frames = frames_create(w.device, SLOTS, FOOTPRINT, STRIDE);
  for (int i = 0; i < 500; i++) {
    int slot = draw(&w, SLOTS);
    uint8_t row[STRIDE];
    uint64_t bits = history_bits(slot, 1, w.step[slot]++);
    for (size_t b = 0; b < STRIDE; b++) row[b] = history_byte(bits, b);
    frames_push(frames, slot, row);
    for (int k = 1; k <= FOOTPRINT && (uint64_t)k <= w.step[slot]; k++)
      check_frame(&w, frames_before(frames, slot, k), slot, 1, w.step[slot] - (uint64_t)k);
  }
  frames_destroy(w.device, frames);
  device_destroy(w.device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_bring_the_frames_before_them),
      cmocka_unit_test(slots_without_pages_remember_their_last_frames),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
