/* Pages that hold several windows, windows of several pages (a burn-in), and both with the frames
 * before a window, under random schedules. */
#include "common/base/check.h"
#include "tests/unit/learner/experience/pages_model.h"
#include "tests/unit/support/aborts.h"
#include "tests/unit/support/races.h"

enum { SHARE = TESTING_SLOWLY ? 4 : 1 };

static const char *device_name;

static bool guarded(void) { /* each of its operations takes microseconds */
  return strcmp(device_name, "guarded") == 0;
}

/* A kind of windows, on pages. */
struct kind {
  int slots, page_steps, stride, window_steps, footprint, state;
  bool stagger;
};

static const struct kind kinds[] = {
    /* several windows a page, within it and beyond it */
    {3, 8, 2, 5, 0, 1, true},
    {3, 8, 4, 8, 0, 0, false},
    {4, 12, 3, 13, 0, 2, true},
    {5, 32, 1, 1, 0, 0, true},
    {2, 32, 8, 10, 0, 0, false},
    /* windows of several pages: a burn-in; the longest that a gather can take */
    {4, 4, 4, 6, 0, 1, true},
    {4, 4, 4, 13, 0, 2, false},
    {3, 3, 3, 21, 0, 1, true},
    {3, 1, 1, 7, 0, 0, true},
    /* both */
    {3, 6, 2, 27, 0, 1, true},
    {2, 10, 5, 25, 0, 0, true},
    /* with frames of the steps before: fewer than a stride, more, all but one of a page */
    {7, 8, 8, 12, 3, 1, true},
    {6, 5, 5, 5, 2, 0, true},
    {3, 12, 4, 4, 3, 0, true},
    {3, 8, 2, 7, 3, 0, false},
    {3, 8, 2, 7, 7, 2, true},
    {2, 5, 1, 3, 4, 0, true},
    {3, 6, 2, 27, 3, 1, true},
    {2, 3, 3, 21, 2, 0, true},
    {3, 4, 4, 4, 3, 0, true},
};
enum { NUM_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static struct model *create(const struct kind *kind, int spare_pages) {
  struct pages_config config = {
      .num_slots = kind->slots,
      .page_steps = kind->page_steps,
      .shape = discrete_shape(MODEL_ROW_BYTES, kind->state, kind->footprint),
      .phase = kind->stagger ? PAGES_STAGGERED : PAGES_AT_ONCE,
      .stride = kind->stride,
      .window_steps = kind->window_steps};
  config.num_pages = pages_needed(&config) + spare_pages;
  return model_create(device_name, &config);
}

/* Steps slots at random, the first one rarely; windows wait a while and go in any order; lives end
 * and begin. */
static void random_schedule(struct model *m, int operations) {
  for (int n = 0; n < operations; n++) {
    int i = model_draw(m, 40) == 0 ? 0 : model_draw(m, m->config.num_slots);
    struct model_slot *slot = &m->slot[i];
    int waiting = slot->num_waiting, what = model_draw(m, 1000);
    if (what < 3 || !slot->alive || model_life_is_full(slot)) {
      model_begin(m, i);
    } else if (waiting > 0 && (what < 300 || waiting == MODEL_WAITING)) {
      int which = model_draw(m, waiting);
      model_check_rows(m, &m->window[slot->waiting[which].start]);
      if (what % 2) model_gather(m, &slot->waiting[which]);
      model_release(m, i, which);
    } else {
      model_step(m, i);
    }
    model_check_counts(m);
  }
}

static void every_window_is_what_was_played(void **state) {
  (void)state;
  for (int k = 0; k < NUM_KINDS; k++) {
    struct model *m = create(&kinds[k], MODEL_WAITING * 12);
    m->seed = (uint32_t)k;
    random_schedule(m, guarded() ? 400 : 6000 / SHARE);
    assert_true(m->windows_gathered > (guarded() ? 3 : 50 / SHARE));
    if (kinds[k].footprint) assert_true(m->frames_checked > (guarded() ? 50 : 1000 / SHARE));
    model_destroy(m);
  }
}

/* ---- pages_needed: enough, and not one more than that */

/* Every window waits until just before its slot closes the next one. */
static void step_at_the_last_moment(struct model *m, int i) {
  struct model_slot *slot = &m->slot[i];
  int closes = model_window_at(m, slot, slot->offset + slot->steps - model_span(m));
  if (closes >= 0 && slot->num_waiting) {
    model_gather(m, &slot->waiting[0]);
    model_release(m, i, 0);
  }
  model_step(m, i);
  model_check_counts(m);
}

/* The slots in turn, so that all of them hold the most at the same time; then at random, the last
 * one hardly ever; then again after new lives. */
static void pages_needed_is_enough_and_not_more(void **state) {
  (void)state;
  for (int k = 0; k < NUM_KINDS; k++) {
    struct kind at_once = kinds[k];
    at_once.stagger = false;
    struct model *m = create(&at_once, 0);
    int slots = m->config.num_slots, steps = 4 * (m->config.window_steps + m->config.page_steps);
    for (int life = 0; life < (guarded() ? 1 : 2); life++) {
      for (int i = 0; i < slots; i++) model_begin(m, i);
      for (int step = 0; step < steps; step++)
        for (int i = 0; i < slots; i++) step_at_the_last_moment(m, i);
      for (int n = 0; n < steps * slots; n++) {
        int slow = model_draw(m, 50) == 0;
        step_at_the_last_moment(m, slow ? slots - 1 : model_draw(m, slots - 1 ? slots - 1 : 1));
      }
    }
    if (m->most_held != m->config.num_pages)
      fail_msg("kind %d: at most %d of %d pages were held", k, m->most_held, m->config.num_pages);
    model_destroy(m);
  }
}

static void pages_needed_is_enough_in_every_phase(void **state) {
  (void)state;
  for (int k = 0; k < NUM_KINDS; k++) {
    struct model *m = create(&kinds[k], 0);
    m->seed = 100 + (uint32_t)k;
    int slots = m->config.num_slots;
    for (int i = 0; i < slots; i++) model_begin(m, i);
    for (int n = 0; n < (guarded() ? 300 : 4000 / SHARE); n++) {
      int i = model_draw(m, slots);
      if (model_draw(m, 200) == 0 || model_life_is_full(&m->slot[i])) model_begin(m, i);
      if (i != 1 || model_draw(m, 30) == 0) step_at_the_last_moment(m, i);
    }
    model_destroy(m);
  }
}

/* ---- what must not be done */

enum misuse {
  TOO_FEW_PAGES,
  TOO_MANY_SPANS,
  TOO_MANY_SPANS_BEHIND_FRAMES,
  TOO_MANY_FRAMES,
  HALF_A_STRIDE,
  GAPS,
  RELEASE_OPEN,
  NUM_MISUSES
};

/* Window in pages of two strides of two steps: it takes all spans that a gather can. */
enum { LONGEST = 4 * (DEVICE_MAX_SPANS - 1) + 1 };

static void misuse(void *subject, int what) {
  struct pages_config *config = subject;
  if (what == TOO_FEW_PAGES) config->num_pages = pages_needed(config) - 1;
  if (what == TOO_MANY_SPANS) config->window_steps++;
  if (what == TOO_MANY_SPANS_BEHIND_FRAMES) config->shape.footprint = 1;
  if (what == TOO_MANY_FRAMES) config->shape.footprint = 4;
  if (what == HALF_A_STRIDE) config->stride = 3;
  if (what == GAPS) config->window_steps = 1;
  struct device *device = device_ref_float_create();
  struct pages *pages = pages_create(device, config);
  pages_begin_life(pages, 0, 1);
  struct window window = {.life = 1, .generation = 1};
  for (int t = 0; t <= config->window_steps; t++) {
    struct pages_place place = pages_append(pages, 0);
    if (place.closes_window) window = place.window;
  }
  pages_release(pages, &window);
  window.start++; /* begins two steps later, and has not closed */
  window.first_step += 2;
  for (int n = 0; what == RELEASE_OPEN && n < 3; n++) pages_release(pages, &window);
}

static void misuse_is_a_check(void **state) {
  (void)state;
  for (int what = 0; what < NUM_MISUSES; what++) {
    struct pages_config config = {.num_slots = 2,
                                  .page_steps = 4,
                                  .shape = discrete_shape(MODEL_ROW_BYTES, 0, 0),
                                  .stride = 2,
                                  .window_steps = LONGEST};
    assert_false(aborts(misuse, &config, NUM_MISUSES));
    if (!aborts(misuse, &config, what)) fail_msg("misuse %d passed", what);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_window_is_what_was_played),
      cmocka_unit_test(pages_needed_is_enough_and_not_more),
      cmocka_unit_test(pages_needed_is_enough_in_every_phase),
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
