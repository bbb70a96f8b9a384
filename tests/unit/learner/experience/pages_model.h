/* Pages under random schedules against a model that knows their contract alone: which page a step
 * goes to, which windows begin and close with it, which pages are held, and which windows are still
 * there after they were released. What is gathered is compared with plain histories (history.h).
 * Each function checks what it does. Include it in one test. */
#ifndef ACORN_TESTS_UNIT_LEARNER_EXPERIENCE_PAGES_MODEL_H
#define ACORN_TESTS_UNIT_LEARNER_EXPERIENCE_PAGES_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "tests/unit/learner/experience/history.h"
#include "tests/unit/support/any_device.h"

enum {
  MODEL_SLOTS = 16,
  MODEL_PAGES = 512,
  MODEL_STARTS = 8192,
  MODEL_STEPS = 3000, /* of a life */
  MODEL_WAITING = 12,
  MODEL_COLUMNS = 3,
  MODEL_ROW_BYTES = 16,
  MODEL_STATE = 2
};

/* The rows of a life are counted from the first one of its first page, which may stand before its
 * first step. A window's span, its frames and its steps, begins at a whole number of strides of
 * these; windows are numbered from 0 in each life. */
struct model_slot {
  bool alive;
  uint32_t life;
  int steps, offset; /* row of the first step */
  int first_span;    /* row that the span of window 0 begins at */
  int num_pages;
  int page[MODEL_STEPS];                /* (num_pages) */
  bool released[MODEL_STEPS];           /* of each window */
  struct window waiting[MODEL_WAITING]; /* closed and not released */
  int num_waiting;
};

/* A window that has closed, and the pages that it needs. */
struct model_window {
  bool closed;
  struct window window;
  int num_pages, page[DEVICE_MAX_SPANS + 1];
  uint64_t begun[DEVICE_MAX_SPANS + 1];
};

struct model {
  struct device *device;
  struct pages *pages;
  struct pages_config config;
  struct train_batch *batch;
  struct host_batch host; /* what is in batch */
  struct model_slot slot[MODEL_SLOTS];
  uint64_t begun[MODEL_PAGES], clock; /* when each page was begun last; 0: never */
  int pins[MODEL_PAGES];
  struct model_window window[MODEL_STARTS]; /* that begins at each start */
  uint32_t draws, seed, life;
  int64_t windows_closed, windows_gathered, frames_checked;
  int most_held;
};

static inline struct model *model_create(const char *device, const struct pages_config *config) {
  struct model *m = check_alloc(1, sizeof(*m));
  struct error error;
  assert_int_equal(any_device_create(&m->device, device, &error), STATUS_OK);
  m->pages = pages_create(m->device, config);
  m->config = *pages_config(m->pages);
  m->batch = train_batch_create(m->device, m->config.window_steps, MODEL_COLUMNS, &config->shape);
  m->host = host_batch_create(m->config.window_steps, MODEL_COLUMNS, &config->shape);
  assert_true(m->config.num_slots <= MODEL_SLOTS && m->config.num_pages <= MODEL_PAGES &&
              pages_num_starts(m->pages) <= MODEL_STARTS && m->config.phase != PAGES_TOGETHER &&
              config->shape.row_stride == MODEL_ROW_BYTES);
  return m;
}

static inline void model_destroy(struct model *m) {
  host_batch_destroy(&m->host);
  train_batch_destroy(m->device, m->batch);
  pages_destroy(m->pages);
  device_destroy(m->device);
  free(m);
}

static inline int model_draw(struct model *m, int below) {
  return (int)(random_bits(m->seed, 0, 0, m->draws++, RANDOM_TEST) % (uint64_t)below);
}

/* ---- which pages are held */

/* Steps of a span but the first. */
static inline int model_span(const struct model *m) {
  return m->config.shape.footprint + m->config.window_steps;
}

/* Page k of the slot's life is needed by a window that has not been released: one with a part of
 * its span in it. Windows that have not begun are not released. */
static inline bool model_needs_page(const struct model *m, const struct model_slot *slot, int k) {
  int P = m->config.page_steps, stride = m->config.stride;
  for (int j = 0, at = slot->first_span; at < (k + 1) * P; j++, at += stride)
    if (at + model_span(m) >= k * P && !slot->released[j]) return true;
  return false;
}

/* Or the next step shows frames of it, or it is being filled. */
static inline bool model_holds(const struct model *m, const struct model_slot *slot, int k) {
  int newest = slot->num_pages - 1, last = (slot->offset + slot->steps - 1) % m->config.page_steps;
  if (k == newest || (k == newest - 1 && last < m->config.shape.footprint)) return true;
  return model_needs_page(m, slot, k);
}

/* Marks the pages that must be held; returns how many there are. */
static inline int model_held(const struct model *m, bool held[MODEL_PAGES]) {
  int count = 0;
  memset(held, 0, MODEL_PAGES * sizeof(*held));
  for (int i = 0; i < m->config.num_slots; i++) {
    const struct model_slot *slot = &m->slot[i];
    for (int k = slot->alive ? slot->num_pages - 1 : -1; k >= 0; k--) {
      if (!model_holds(m, slot, k)) continue;
      CHECK(!held[slot->page[k]], "page %d is held twice", slot->page[k]);
      held[slot->page[k]] = true;
      count++;
    }
  }
  return count;
}

static inline void model_check_counts(struct model *m) {
  bool held[MODEL_PAGES];
  int count = model_held(m, held);
  assert_int_equal(pages_held(m->pages), count);
  assert_int_equal(pages_free(m->pages), m->config.num_pages - count);
  if (count > m->most_held) m->most_held = count;
}

/* The page that must be taken next: of those neither held nor pinned the one begun longest ago. */
static inline int model_next_page(const struct model *m) {
  bool held[MODEL_PAGES];
  model_held(m, held);
  int oldest = -1;
  for (int i = 0; i < m->config.num_pages; i++)
    if (!held[i] && !m->pins[i] && (oldest < 0 || m->begun[i] < m->begun[oldest])) oldest = i;
  return oldest;
}

/* ---- which windows there are */

static inline bool model_is_there(const struct model *m, const struct model_window *window) {
  bool there = window->closed;
  for (int i = 0; i < window->num_pages; i++)
    there = there && m->begun[window->page[i]] == window->begun[i];
  return there;
}

static inline void model_add_page(const struct model *m, struct model_window *window, int page) {
  window->page[window->num_pages] = page;
  window->begun[window->num_pages++] = m->begun[page];
}

/* Steps before this one in its episode, at most the footprint: from the flags alone. */
static inline int model_depth(const struct model *m, int slot, uint32_t life, uint64_t step) {
  int depth = 0;
  while (depth < m->config.shape.footprint &&
         !(history_step(slot, life, step - (uint64_t)depth).flags & STEP_FIRST))
    depth++;
  return depth;
}

/* Notes window j of the slot, which has closed. */
static inline const struct model_window *model_close(struct model *m, int i, int j) {
  const struct model_slot *slot = &m->slot[i];
  int P = m->config.page_steps, span = slot->first_span + j * m->config.stride;
  int first = slot->page[span / P], last = (span + model_span(m)) / P;
  struct window window = {.slot = i,
                          .life = slot->life,
                          .first_step = (uint64_t)(span + m->config.shape.footprint - slot->offset),
                          .start = first * (P / m->config.stride) + span % P / m->config.stride,
                          .generation = m->begun[first]};
  struct model_window *at = &m->window[window.start];
  *at = (struct model_window){.closed = true, .window = window};
  for (int k = span / P; k <= last; k++) model_add_page(m, at, slot->page[k]);
  m->windows_closed++;
  return at;
}

static inline bool model_same_window(const struct window *a, const struct window *b) {
  return a->slot == b->slot && a->life == b->life && a->first_step == b->first_step &&
         a->start == b->start && a->generation == b->generation;
}

/* ---- lives and steps */

static inline void model_begin(struct model *m, int i) {
  struct model_slot *slot = &m->slot[i];
  int P = m->config.page_steps, footprint = m->config.shape.footprint;
  pages_begin_life(m->pages, i, ++m->life);
  memset(slot, 0, sizeof(*slot));
  slot->alive = true;
  slot->life = m->life;
  slot->offset = m->config.phase == PAGES_STAGGERED ? (footprint + P - i % P) % P : footprint;
  while (slot->first_span + footprint < slot->offset) slot->first_span += m->config.stride;
}

/* A page is begun for the slot: which one it must be was known before. */
static inline void model_begin_page(struct model *m, int page) {
  int starts = m->config.page_steps / m->config.stride;
  m->begun[page] = ++m->clock;
  for (int s = 0; s < starts; s++) m->window[page * starts + s].closed = false;
}

/* Where the slot's next step must go. */
static inline int64_t model_row(struct model *m, struct model_slot *slot) {
  int P = m->config.page_steps, at = slot->offset + slot->steps;
  if (slot->steps == 0 || at % P == 0) {
    slot->page[slot->num_pages] = model_next_page(m);
    model_begin_page(m, slot->page[slot->num_pages++]);
  }
  return (int64_t)slot->page[at / P] * P + at % P;
}

static inline void model_check_frame(struct model *m, const uint8_t *frame, int slot, uint32_t life,
                                     uint64_t step) {
  uint64_t bits = history_bits(slot, life, step);
  for (size_t i = 0; i < MODEL_ROW_BYTES; i++) assert_int_equal(frame[i], history_byte(bits, i));
  m->frames_checked++;
}

/* The frames that the slot's next step shows besides itself are in rows of the pool. */
static inline void model_check_past(struct model *m, int i, int depth) {
  const struct model_slot *slot = &m->slot[i];
  const uint8_t *observation = pages_rows(m->pages)->pool.observation;
  for (int k = 1; k <= depth; k++) {
    uint8_t frame[MODEL_ROW_BYTES];
    int64_t row = pages_row_before(m->pages, i, k);
    m->device->ops->download_bytes(m->device, frame, observation + row * MODEL_ROW_BYTES,
                                   MODEL_ROW_BYTES);
    device_finish(m->device);
    model_check_frame(m, frame, i, slot->life, (uint64_t)(slot->steps - k));
  }
}

/* The number of the window whose span begins at a row; -1: none does. */
static inline int model_window_at(const struct model *m, const struct model_slot *slot, int row) {
  int behind = row - slot->first_span;
  return behind >= 0 && behind % m->config.stride == 0 ? behind / m->config.stride : -1;
}

/* What pages_append said of the slot's next step. */
static inline void model_check_place(struct model *m, int i, const struct pages_place *place) {
  const struct pages_config *c = &m->config;
  struct model_slot *slot = &m->slot[i];
  int at = slot->offset + slot->steps, span = at - c->shape.footprint, P = c->page_steps;
  int32_t start = -1;
  if (model_window_at(m, slot, span) >= 0)
    start = slot->page[span / P] * (P / c->stride) + span % P / c->stride;
  int closes = model_window_at(m, slot, at - model_span(m));
  assert_int_equal(place->start, start);
  assert_int_equal(place->closes_window, closes >= 0);
  if (closes < 0) return;
  const struct model_window *window = model_close(m, i, closes);
  assert_true(model_same_window(&place->window, &window->window));
  assert_true(slot->num_waiting < MODEL_WAITING);
  slot->waiting[slot->num_waiting++] = window->window;
}

/* The slot's next step. Returns whether a window closed. */
static inline bool model_step(struct model *m, int i) {
  struct model_slot *slot = &m->slot[i];
  int waiting = slot->num_waiting;
  int depth = model_depth(m, i, slot->life, (uint64_t)slot->steps);
  assert_true(slot->steps < MODEL_STEPS);
  model_check_past(m, i, depth);
  int64_t row = model_row(m, slot);
  struct pages_place place = {.row = pages_try_append(pages_rows(m->pages), i), .start = -1};
  if (place.row < 0) place = pages_append(m->pages, i);
  assert_int_equal(place.row, row);
  model_check_place(m, i, &place);
  history_write(m->pages, m->device, &m->config.shape, &place, i, slot->life,
                (uint64_t)slot->steps);
  if (place.start >= 0) pages_rows(m->pages)->start_depth[place.start] = depth;
  slot->steps++;
  return slot->num_waiting > waiting;
}

/* ---- windows */

static inline bool model_life_is_full(const struct model_slot *slot) {
  return slot->steps == MODEL_STEPS;
}

/* Gathers into one column: it holds the history's steps and the frames before them. */
static inline void model_gather(struct model *m, const struct window *window) {
  int column = model_draw(m, MODEL_COLUMNS);
  int depth = model_depth(m, window->slot, window->life, window->first_step);
  pages_gather(m->pages, m->device, m->batch, column, window, 1);
  host_batch_read(&m->host, m->device, m->batch);
  const struct train_batch *batch = m->host.batch;
  assert_true(model_same_window(&batch->window[column], window));
  assert_true(history_matches(batch, column));
  assert_int_equal(batch->depth[column], depth);
  for (int k = 1; k <= depth; k++)
    model_check_frame(m, batch->observation + (column - k * batch->N) * MODEL_ROW_BYTES,
                      window->slot, window->life, window->first_step - (uint64_t)k);
  m->windows_gathered++;
}

/* Each step of a window that is there is in the row that pages_row returns. */
static inline void model_check_rows(const struct model *m, const struct model_window *window) {
  int P = m->config.page_steps, offset = window->window.start % (P / m->config.stride);
  offset = offset * m->config.stride + m->config.shape.footprint;
  for (int t = 0; t <= m->config.window_steps; t++)
    assert_int_equal(pages_row(m->pages, &window->window, t),
                     (int64_t)window->page[(offset + t) / P] * P + (offset + t) % P);
}

/* One of the windows that wait was released. */
static inline void model_note_release(struct model *m, int i, int which) {
  struct model_slot *slot = &m->slot[i];
  struct window window = slot->waiting[which];
  int span = slot->offset + (int)window.first_step - m->config.shape.footprint;
  slot->released[model_window_at(m, slot, span)] = true;
  slot->waiting[which] = slot->waiting[--slot->num_waiting];
}

static inline void model_release(struct model *m, int i, int which) {
  pages_release(m->pages, &m->slot[i].waiting[which]);
  model_note_release(m, i, which);
}

#endif
