/* Pages that replay: windows that were released are found, pinned and gathered until a page of
 * theirs is reused, and the callback names those that go. */
#include <pthread.h>

#include "common/base/check.h"
#include "tests/unit/learner/experience/pages_model.h"
#include "tests/unit/support/aborts.h"
#include "tests/unit/support/races.h"

enum { MAX_PINNED = 6, SHARE = TESTING_SLOWLY ? 2 : 1 };

static const char *device_name;

static bool guarded(void) { /* each of its operations takes microseconds */
  return strcmp(device_name, "guarded") == 0;
}

struct world {
  struct model *m;
  bool named[MODEL_STARTS]; /* by the callback in the present step */
  int num_named;
  struct model_window pinned[MAX_PINNED];
  int num_pinned;
  int64_t found, gone, reused;
};

static void note_gone(void *context, int32_t first, int count) {
  struct world *w = context;
  assert_true(first >= 0 && count >= 0 && first + count <= pages_num_starts(w->m->pages));
  for (int i = 0; i < count; i++) w->named[first + i] = true;
  w->num_named += count;
}

/* A kind of windows, on pages. */
struct kind {
  int slots, page_steps, stride, window_steps, footprint;
};

static const struct kind kinds[] = {
    {3, 4, 4, 4, 0},  {3, 8, 2, 5, 0},  {4, 4, 4, 13, 0}, {3, 6, 2, 27, 0}, {4, 8, 8, 12, 3},
    {3, 8, 2, 7, 3},  {3, 8, 2, 7, 7},  {2, 5, 1, 3, 4},  {3, 6, 2, 27, 3}, {3, 12, 4, 4, 3},
    {2, 3, 3, 21, 2}, {5, 32, 1, 1, 0}, {3, 1, 1, 7, 0},
};
enum { NUM_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static struct world *create(const struct kind *kind, int spare_pages) {
  struct world *w = check_alloc(1, sizeof(*w));
  struct pages_config config = {.num_slots = kind->slots,
                                .page_steps = kind->page_steps,
                                .shape = discrete_shape(MODEL_ROW_BYTES, 1, kind->footprint),
                                .phase = PAGES_STAGGERED,
                                .stride = kind->stride,
                                .window_steps = kind->window_steps,
                                .replays = true};
  config.num_pages = pages_needed(&config) + spare_pages +
                     MAX_PINNED * (pages_most_spans(&config) + (kind->footprint > 0));
  w->m = model_create(device_name, &config);
  pages_on_reuse(w->m->pages, note_gone, w);
  for (int i = 0; i < kind->slots; i++) model_begin(w->m, i);
  return w;
}

static void destroy(struct world *w) {
  model_destroy(w->m);
  free(w);
}

static void lock(const struct world *w) {
  pthread_mutex_lock(pages_lock(w->m->pages));
}

static void unlock(const struct world *w) {
  pthread_mutex_unlock(pages_lock(w->m->pages));
}

/* ---- what is there */

/* The window that closed at a start is found if the model has it, and only then. */
static void check_start(struct world *w, int32_t start) {
  const struct model_window *known = &w->m->window[start];
  struct window found;
  if (!known->closed) return;
  bool there = model_is_there(w->m, known);
  lock(w);
  bool is_found = pages_find(w->m->pages, start, &found);
  bool has = pages_has(w->m->pages, &known->window);
  unlock(w);
  assert_int_equal(is_found, there);
  assert_int_equal(has, there);
  if (!there) return;
  assert_true(model_same_window(&found, &known->window));
  w->found++;
}

static void note_there(const struct world *w, bool there[MODEL_STARTS]) {
  for (int32_t s = 0; s < pages_num_starts(w->m->pages); s++)
    there[s] = model_is_there(w->m, &w->m->window[s]);
}

/* Of the windows that were there those that were named have gone, and no others. */
static void check_named(struct world *w, const bool before[MODEL_STARTS]) {
  static bool after[MODEL_STARTS];
  note_there(w, after);
  for (int32_t s = 0; s < pages_num_starts(w->m->pages); s++) {
    if (before[s]) assert_int_equal(w->named[s], !after[s]);
    w->gone += before[s] && !after[s];
  }
}

/* A step, after which the callback's starts are compared with the model's. */
static void step(struct world *w, int i) {
  static bool before[MODEL_STARTS];
  uint64_t clock = w->m->clock;
  note_there(w, before);
  memset(w->named, 0, sizeof(w->named));
  w->num_named = 0;
  model_step(w->m, i);
  if (w->m->clock == clock) assert_int_equal(w->num_named, 0);
  w->reused += w->num_named > 0;
  check_named(w, before);
}

/* ---- pins */

static void add_pins(struct world *w, const struct model_window *window, int pins) {
  for (int i = 0; i < window->num_pages; i++) w->m->pins[window->page[i]] += pins;
}

/* Pins a window that is there, if the draw meets one. It may be pinned already. */
static void pin_one(struct world *w) {
  int32_t start = model_draw(w->m, pages_num_starts(w->m->pages));
  const struct model_window *known = &w->m->window[start];
  if (w->num_pinned == MAX_PINNED || !model_is_there(w->m, known)) return;
  lock(w);
  pages_pin(w->m->pages, &known->window);
  unlock(w);
  add_pins(w, known, 1);
  w->pinned[w->num_pinned++] = *known;
}

/* Gathers a pinned window, some time after it was pinned, and unpins it. */
static void gather_one(struct world *w) {
  if (w->num_pinned == 0) return;
  int which = model_draw(w->m, w->num_pinned);
  struct model_window window = w->pinned[which];
  model_check_rows(w->m, &window);
  model_gather(w->m, &window.window);
  lock(w);
  pages_unpin(w->m->pages, &window.window);
  unlock(w);
  add_pins(w, &window, -1);
  w->pinned[which] = w->pinned[--w->num_pinned];
}

/* ---- tests */

/* Each window is released as it closes, or waits a little; slots step at random, the first one
 * rarely; lives end and begin while their windows are pinned. */
static void random_schedule(struct world *w, int operations) {
  struct model *m = w->m;
  for (int n = 0; n < operations; n++) {
    int i = model_draw(m, 40) == 0 ? 0 : model_draw(m, m->config.num_slots);
    struct model_slot *slot = &m->slot[i];
    int what = model_draw(m, 1000);
    if (what < 3 || model_life_is_full(slot)) {
      model_begin(m, i);
    } else if (what < 60) {
      pin_one(w);
    } else if (what < 110) {
      gather_one(w);
    } else {
      if (slot->num_waiting == 2) model_release(m, i, model_draw(m, 2));
      step(w, i);
      if (slot->num_waiting && what % 4) model_release(m, i, 0);
    }
    model_check_counts(m);
    for (int k = 0; k < 3; k++) check_start(w, model_draw(m, pages_num_starts(m->pages)));
  }
  for (int32_t s = 0; s < pages_num_starts(m->pages); s++) check_start(w, s);
}

static void windows_are_there_until_a_page_is_reused(void **state) {
  (void)state;
  for (int k = 0; k < NUM_KINDS; k++) {
    struct world *w = create(&kinds[k], 3 * kinds[k].slots + 5 * (k % 3));
    w->m->seed = 1000 + (uint32_t)k;
    random_schedule(w, (guarded() ? 600 : 4000) / SHARE);
    if (!guarded())
      assert_true(w->found > 1000 / SHARE && w->gone > 50 / SHARE && w->reused > 20 / SHARE &&
                  w->m->windows_gathered > 100 / SHARE);
    destroy(w);
  }
}

/* A window stays for as long as it is pinned, however much is played meanwhile, also when its life
 * has ended. */
static void a_pinned_page_is_never_reused(void **state) {
  (void)state;
  for (int k = 0; k < NUM_KINDS; k++) {
    struct world *w = create(&kinds[k], 0);
    struct model *m = w->m;
    while (m->windows_closed < 3) {
      step(w, 0);
      while (m->slot[0].num_waiting) model_release(m, 0, 0);
    }
    while (w->num_pinned < MAX_PINNED) pin_one(w);
    model_begin(m, 0);
    for (int n = 0; n < 3 * m->config.num_pages * m->config.page_steps; n++) {
      int i = n % m->config.num_slots;
      if (model_life_is_full(&m->slot[i])) model_begin(m, i);
      step(w, i);
      while (m->slot[i].num_waiting) model_release(m, i, 0);
    }
    for (int i = 0; i < MAX_PINNED; i++) check_start(w, w->pinned[i].window.start);
    while (w->num_pinned) gather_one(w);
    destroy(w);
  }
}

/* What a slot left behind whose actor has gone is reused like the rest, all but the pages that its
 * open windows hold. */
static void a_dead_slot_ages_out(void **state) {
  (void)state;
  for (int k = 0; k < NUM_KINDS; k++) {
    struct world *w = create(&kinds[k], 4 * kinds[k].slots);
    struct model *m = w->m;
    const struct pages_config *c = &m->config;
    bool held[MODEL_PAGES];
    int dead = 0, steps = 2 * (c->window_steps + 2 * c->page_steps);
    for (int n = 0; n < steps; n++) {
      step(w, dead);
      while (m->slot[dead].num_waiting) model_release(m, dead, 0);
    }
    uint64_t death = m->clock;
    int64_t left = m->windows_closed;
    assert_true(left > 0);
    for (int n = 0; n < c->num_pages * c->page_steps; n++) {
      if (model_life_is_full(&m->slot[1])) model_begin(m, 1);
      step(w, 1);
      while (m->slot[1].num_waiting) model_release(m, 1, 0);
    }
    model_held(m, held);
    for (int page = 0; page < c->num_pages; page++)
      assert_true(m->begun[page] > death || held[page]);
    for (int32_t s = 0; s < pages_num_starts(m->pages); s++) check_start(w, s);
    destroy(w);
  }
}

/* ---- what must not be done */

enum misuse { UNPIN_TWICE, PIN_GONE, GATHER_GONE, ALL_PINNED, NUM_MISUSES };

static void misuse(void *subject, int what) {
  struct world *w = subject;
  struct model *m = w->m;
  while (m->windows_closed == 0) model_step(m, 0);
  struct window window = m->slot[0].waiting[0];
  model_release(m, 0, 0);
  pages_pin(m->pages, &window);
  pages_unpin(m->pages, &window);
  if (what == UNPIN_TWICE) pages_unpin(m->pages, &window);
  for (int n = 0; what == ALL_PINNED && n < 1000; n++) {
    struct pages_place place = pages_append(m->pages, 0);
    if (!place.closes_window) continue;
    pages_release(m->pages, &place.window);
    pages_pin(m->pages, &place.window);
  }
  bool gone = what == PIN_GONE || what == GATHER_GONE;
  for (int n = 0; gone && n < 1000; n++) {
    struct pages_place place = pages_append(m->pages, 0);
    if (place.closes_window) pages_release(m->pages, &place.window);
  }
  if (what == PIN_GONE) pages_pin(m->pages, &window);
  if (what == GATHER_GONE) pages_gather(m->pages, m->device, m->batch, 0, &window, 1);
}

static void misuse_is_a_check(void **state) {
  (void)state;
  for (int what = 0; what < NUM_MISUSES; what++) {
    struct world *w = create(&kinds[0], 0);
    assert_false(aborts(misuse, w, NUM_MISUSES));
    if (!aborts(misuse, w, what)) fail_msg("misuse %d passed", what);
    destroy(w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_are_there_until_a_page_is_reused),
      cmocka_unit_test(a_pinned_page_is_never_reused),
      cmocka_unit_test(a_dead_slot_ages_out),
      cmocka_unit_test(misuse_is_a_check),
  };
  int failed = 0;
  static const char *const devices[] = {"ref", "guarded"};
  for (int i = 0; i < 2; i++) {
    device_name = devices[i];
    failed += cmocka_run_group_tests_name(device_name, tests, NULL, NULL);
  }
  return failed;
}
