/* Pages against plain histories (history.h) and a model that only counts, under random schedules.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "tests/unit/learner/experience/history.h"
#include "tests/unit/support/any_device.h"
#include "tests/unit/support/aborts.h"

enum { MAX_SLOTS = 256, MAX_PAGES = 1024, MAX_WAITING = 8, BATCH_COLUMNS = 3 };

/* What the model knows of a slot: its windows that closed and were not yet released, and its pages
 * by window. */
struct model_slot {
  bool alive;
  uint32_t life;
  uint64_t steps, phase;
  struct window waiting[MAX_WAITING];
  int num_waiting;
  int lead;     /* page of the steps before the phase, if there are any */
  int *page_of; /* (pages of this life behind it) which page holds window k */
  int num_pages;
};

struct world {
  struct device *device;
  struct pages *pages;
  struct train_batch *batch;
  struct host_batch host; /* what is in batch */
  struct pages_config config;
  struct model_slot slot[MAX_SLOTS];
  uint64_t begun[MAX_PAGES], clock;
  uint32_t draws, seed, life;
  int64_t windows_gathered;
};

enum { MAX_PAGES_OF_LIFE = 20000 };

static const char *device_name;

static bool guarded(void) { /* each of its operations takes microseconds */
  return strcmp(device_name, "guarded") == 0;
}

static struct world *world_create(int num_slots, int T, size_t stride, int state_size, bool stagger,
                                  int spare_pages) {
  struct world *world = calloc(1, sizeof *world);
  struct error error;
  assert_int_equal(any_device_create(&world->device, device_name, &error), STATUS_OK);
  world->config = (struct pages_config){.num_slots = num_slots,
                                        .page_steps = T,
                                        .shape = discrete_shape(stride, state_size, 0),
                                        .phase = stagger ? PAGES_STAGGERED : PAGES_AT_ONCE};
  world->config.num_pages = pages_needed(&world->config) + spare_pages;
  assert_true(num_slots <= MAX_SLOTS && world->config.num_pages <= MAX_PAGES);
  world->pages = pages_create(world->device, &world->config);
  world->batch = train_batch_create(world->device, T, BATCH_COLUMNS, &world->config.shape);
  world->host = host_batch_create(T, BATCH_COLUMNS, &world->config.shape);
  for (int i = 0; i < num_slots; i++)
    world->slot[i].page_of = malloc(MAX_PAGES_OF_LIFE * sizeof(int));
  return world;
}

static void world_destroy(struct world *world) {
  for (int i = 0; i < world->config.num_slots; i++) free(world->slot[i].page_of);
  host_batch_destroy(&world->host);
  train_batch_destroy(world->device, world->batch);
  pages_destroy(world->pages);
  device_destroy(world->device);
  free(world);
}

static int draw(struct world *world, int below) {
  return (int)(random_bits(world->seed, 0, 0, world->draws++, RANDOM_TEST) % (uint64_t)below);
}

/* ---- the model */

static void mark(const struct model_slot *slot, uint64_t k, bool held[MAX_PAGES], int *count) {
  int page = slot->page_of[k];
  *count += !held[page];
  held[page] = true;
}

/* Marks the pages that must be held: those being filled, those of waiting windows and the ones
 * behind. Returns how many. */
static int model_held(const struct world *world, bool held[MAX_PAGES]) {
  int count = 0;
  memset(held, 0, MAX_PAGES * sizeof *held);
  for (int i = 0; i < world->config.num_slots; i++) {
    const struct model_slot *slot = &world->slot[i];
    if (!slot->alive || slot->steps == 0) continue;
    if (slot->num_pages == 0) {
      held[slot->lead] = true;
      count++;
      continue;
    }
    mark(slot, (uint64_t)slot->num_pages - 1, held, &count);
    for (int w = 0; w < slot->num_waiting; w++) {
      uint64_t k = (slot->waiting[w].first_step - slot->phase) / (uint64_t)world->config.page_steps;
      mark(slot, k, held, &count);
      mark(slot, k + 1, held, &count);
    }
  }
  return count;
}

static void check_counts(const struct world *world) {
  bool held[MAX_PAGES];
  int count = model_held(world, held);
  assert_int_equal(pages_held(world->pages), count);
  assert_int_equal(pages_free(world->pages), world->config.num_pages - count);
}

/* The page that must be taken next: of those not held, the one begun longest ago. */
static int model_next_page(const struct world *world) {
  bool held[MAX_PAGES];
  model_held(world, held);
  int oldest = -1;
  for (int i = 0; i < world->config.num_pages; i++)
    if (!held[i] && (oldest < 0 || world->begun[i] < world->begun[oldest])) oldest = i;
  return oldest;
}

static void begin(struct world *world, int i) {
  struct model_slot *slot = &world->slot[i];
  int *page_of = slot->page_of;
  pages_begin_life(world->pages, i, ++world->life);
  uint64_t phase =
      world->config.phase == PAGES_STAGGERED ? (uint64_t)(i % world->config.page_steps) : 0;
  *slot =
      (struct model_slot){.alive = true, .life = world->life, .phase = phase, .page_of = page_of};
}

/* A step before the first window: in the end of a page of its own. */
static void lead_step(struct world *world, int i, const struct pages_place *place, int expected) {
  struct model_slot *slot = &world->slot[i];
  int T = world->config.page_steps;
  if (slot->steps == 0) {
    slot->lead = expected;
    world->begun[expected] = ++world->clock;
  }
  int64_t row = (int64_t)(slot->lead + 1) * T - (int64_t)(slot->phase - slot->steps);
  assert_int_equal(place->row, row);
  assert_true(place->start == -1 && !place->closes_window);
  slot->steps++;
}

/* One step of a slot: the place must be what the model says. Returns whether a window closed. */
static bool step(struct world *world, int i) {
  struct model_slot *slot = &world->slot[i];
  int T = world->config.page_steps, expected = model_next_page(world);
  struct pages_place place = pages_append(world->pages, i);
  if (slot->steps < slot->phase) {
    lead_step(world, i, &place, expected);
    return false;
  }
  uint64_t since = slot->steps - slot->phase;
  int offset = (int)(since % (uint64_t)T);
  int page = (int)(place.row / T);
  assert_int_equal(place.start, offset == 0 ? page : -1);
  assert_int_equal(place.closes_window, offset == 0 && since > 0);
  if (offset == 0) {
    assert_int_equal(page, expected);
    assert_true(slot->num_pages < MAX_PAGES_OF_LIFE);
    slot->page_of[slot->num_pages++] = page;
    world->begun[page] = ++world->clock;
  }
  assert_int_equal(page, slot->page_of[slot->num_pages - 1]);
  assert_int_equal(place.row % T, offset);
  history_write(world->pages, world->device, &world->config.shape, &place, i, slot->life,
                slot->steps);
  slot->steps++;
  if (!place.closes_window) return false;

  assert_int_equal(place.window.slot, i);
  assert_int_equal(place.window.life, slot->life);
  assert_true(place.window.first_step == slot->steps - 1 - (uint64_t)T);
  assert_true(slot->num_waiting < MAX_WAITING);
  slot->waiting[slot->num_waiting++] = place.window;
  return true;
}

static void forget(struct model_slot *slot, int which) {
  slot->waiting[which] = slot->waiting[--slot->num_waiting];
}

/* Gathers into one column: it holds the history's steps, the other columns are untouched. */
static void gather(struct world *world, int i, int which) {
  struct train_batch *batch = world->host.batch;
  int column = draw(world, BATCH_COLUMNS);
  size_t rows = (size_t)(batch->T + 1) * BATCH_COLUMNS;
  memset(batch->observation, 0xee, rows * batch->shape.row_stride);
  memset(batch->action, 0xee, rows * sizeof(int32_t));
  memset(batch->flags, 0xee, rows);
  host_batch_write(&world->host, world->device, world->batch);
  struct window window = world->slot[i].waiting[which];
  pages_gather(world->pages, world->device, world->batch, column, &window, 1);
  pages_release(world->pages, &window);
  host_batch_read(&world->host, world->device, world->batch);
  forget(&world->slot[i], which);

  assert_memory_equal(&batch->window[column], &window, sizeof window);
  assert_true(history_matches(batch, column));
  for (size_t at = 0; at < rows; at++) {
    if (at % BATCH_COLUMNS == (size_t)column) continue;
    assert_int_equal(batch->observation[at * batch->shape.row_stride], 0xee);
    assert_int_equal(batch->observation[(at + 1) * batch->shape.row_stride - 1], 0xee);
    assert_int_equal(((const uint32_t *)batch->action)[at], 0xeeeeeeee);
    assert_int_equal(batch->flags[at], 0xee);
  }
  world->windows_gathered++;
}

/* ---- tests */

/* Steps slots at random, the first one rarely; windows wait a while and go in any order; lives end
 * and begin. */
static void random_schedule(struct world *world, int operations, int patience) {
  int num_slots = world->config.num_slots;
  for (int n = 0; n < operations; n++) {
    int i = draw(world, 40) == 0 ? 0 : draw(world, num_slots), what = draw(world, 1000);
    struct model_slot *slot = &world->slot[i];
    if (what < 4 || !slot->alive)
      begin(world, i);
    else if (slot->num_waiting > 0 && draw(world, patience) == 0)
      gather(world, i, draw(world, slot->num_waiting));
    else if (slot->num_waiting > 0 && what < 10) {
      int which = draw(world, slot->num_waiting);
      pages_release(world->pages, &slot->waiting[which]);
      forget(slot, which);
    } else if (slot->num_waiting < MAX_WAITING)
      step(world, i);
    check_counts(world);
  }
}

static void test_random_schedules_keep_every_step(void **state) {
  (void)state;
  static const struct {
    int num_slots, T;
    size_t stride;
    int state_size;
    bool stagger;
    int spare_pages, patience;
  } rows[] = {
      {1, 1, 16, 0, false, 20, 3},  {1, 4, 16, 3, true, 20, 2},    {7, 5, 16, 0, true, 90, 8},
      {7, 5, 32, 2, true, 90, 40},  {16, 20, 48, 5, true, 200, 8}, {5, 3, 7056, 1, false, 60, 8},
      {12, 1, 16, 1, true, 150, 8},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct world *world = world_create(rows[i].num_slots, rows[i].T, rows[i].stride,
                                       rows[i].state_size, rows[i].stagger, rows[i].spare_pages);
    world->seed = (uint32_t)i;
    int operations = rows[i].stride > 1000 ? 4000 : 20000;
    random_schedule(world, guarded() ? operations / 10 : operations, rows[i].patience);
    assert_true(world->windows_gathered > (guarded() ? 10 : 100));
    world_destroy(world);
  }
}

/* Windows gathered as they close: pages_needed is enough, in every phase, also with a slot that
 * hardly moves. */
static void test_pages_needed_is_enough(void **state) {
  (void)state;
  for (int stagger = 0; stagger < 2; stagger++) {
    struct world *world = world_create(9, 4, 16, 1, stagger, 0);
    for (int i = 0; i < 9; i++) begin(world, i);
    for (int round = 0; round < 2000; round++)
      for (int i = 0; i < 9; i++) {
        if (i == 4 && round % 50 != 0) continue;
        if (step(world, i)) gather(world, i, 0);
        check_counts(world);
      }
    /* The slow slot kept its half-made windows: 40 steps, whole windows only. */
    assert_int_equal(world->slot[4].steps, 40);
    assert_int_equal(world->slot[4].num_pages, 10);
    world_destroy(world);
  }
}

/* One window of each slot waits until the slot's next closes: still enough, if they are released in
 * time. */
static void test_a_whole_round_of_windows_may_wait(void **state) {
  (void)state;
  struct world *world = world_create(6, 5, 16, 0, false, 0);
  for (int i = 0; i < 6; i++) begin(world, i);
  for (int round = 0; round < 200; round++) {
    for (int i = 0; i < 6; i++) step(world, i);
    if (round % 5 == 4)
      for (int i = 5; i >= 0; i--)
        if (world->slot[i].num_waiting) gather(world, i, 0);
    check_counts(world);
  }
  assert_int_equal(world->windows_gathered, 6 * 39);
  world_destroy(world);
}

static void test_windows_complete_evenly(void **state) {
  (void)state;
  static const int rows[][2] = {{1, 20}, {20, 20}, {32, 20}, {50, 20}, {64, 1}, {100, 7}, {3, 64}};
  for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
    int num_slots = rows[n][0], T = rows[n][1];
    struct world *world = world_create(num_slots, T, 16, 0, true, 0);
    double mean = (double)num_slots / T;
    for (int i = 0; i < num_slots; i++) begin(world, i);
    for (int round = 0; round < 5 * T; round++) {
      int closed = 0;
      for (int i = 0; i < num_slots; i++) {
        if (!step(world, i)) continue;
        closed++;
        gather(world, i, 0);
      }
      /* After its phase and a window, every slot has a period of T steps. */
      if (round >= 2 * T) assert_true(fabs(closed - mean) < 1);
    }
    world_destroy(world);
  }
}

/* Slots that join at any time close their windows in the same rounds as the others, also after the
 * slots that came first have gone; with frames of the past, too. */
static void test_windows_complete_together(void **state) {
  (void)state;
  enum { SLOTS = 5, T = 4, ROUNDS = 60 };
  static const int joins[SLOTS] = {0, 0, 3, 9, 22};
  for (int footprint = 0; footprint < 3; footprint += 2) {
    struct device *device = device_ref_float_create();
    struct pages_config config = {.num_slots = SLOTS,
                                  .page_steps = T,
                                  .shape = discrete_shape(16, 0, footprint),
                                  .phase = PAGES_TOGETHER};
    struct pages *pages = pages_create(device, &config);
    for (int round = 0; round < ROUNDS; round++) {
      int alive = 0, closed = 0;
      for (int i = 0; i < SLOTS; i++)
        if (round == joins[i]) pages_begin_life(pages, i, 1);
      for (int i = 0; i < SLOTS; i++) {
        if (round < joins[i] || (i < 2 && round > 40)) continue;
        struct pages_place place = pages_append(pages, i);
        alive += round >= joins[i] + 2 * T;
        if (!place.closes_window) continue;
        pages_release(pages, &place.window);
        closed++;
      }
      if (closed) assert_true(closed >= alive);
      if (closed) assert_int_equal(round % T, 0);
    }
    pages_destroy(pages);
    device_destroy(device);
  }
}

/* The pages of lives that ended go round like the others: every page of the pool is begun again. */
static void test_pages_of_ended_lives_go_round(void **state) {
  (void)state;
  struct world *world = world_create(8, 4, 16, 0, true, 0);
  for (int i = 0; i < 8; i++) begin(world, i);
  for (int round = 0; round < 40; round++)
    for (int i = 0; i < 8; i++)
      if (step(world, i)) gather(world, i, 0);
  for (int i = 1; i < 8; i++) begin(world, i); /* and no step */
  check_counts(world);
  assert_int_equal(pages_held(world->pages), 1);

  uint64_t ended = world->clock;
  for (int n = 0; n < 4 * (world->config.num_pages + 1); n++)
    if (step(world, 0)) gather(world, 0, 0);
  for (int i = 0; i < world->config.num_pages; i++) assert_true(world->begun[i] > ended);
  world_destroy(world);
}

static void test_sizes(void **state) {
  (void)state;
  struct world *world = world_create(4, 20, 32, 0, true, 2);
  assert_int_equal(pages_capacity_steps(world->pages), 10 * 20);
  assert_int_equal(pages_observation_bytes(world->pages), 10 * 20 * 32);
  assert_int_equal(pages_free(world->pages), 10);
  world_destroy(world);
}

/* ---- what must not be done */

enum misuse {
  RELEASE_AFTER_NEW_LIFE,
  RELEASE_TWICE,
  GATHER_OPEN,
  APPEND_UNBORN,
  NO_SUCH_SLOT,
  NO_SUCH_COLUMN,
  TOO_MANY_WAIT,
};

static void misuse(void *subject, int what) {
  struct world *world = subject;
  if (what == NO_SUCH_SLOT) pages_begin_life(world->pages, 2, 1);
  if (what == APPEND_UNBORN) pages_append(world->pages, 1);
  begin(world, 0);
  for (int n = 0; n < 5; n++) step(world, 0);
  struct window window = world->slot[0].waiting[0];
  struct window open = window;
  open.first_step += 4;
  if (what == RELEASE_AFTER_NEW_LIFE) begin(world, 0);
  if (what == RELEASE_AFTER_NEW_LIFE) pages_release(world->pages, &window);
  if (what == GATHER_OPEN) pages_gather(world->pages, world->device, world->batch, 0, &open, 1);
  if (what == TOO_MANY_WAIT)
    for (int n = 0; n < 100; n++) pages_append(world->pages, 0);
  int column = what == NO_SUCH_COLUMN ? 3 : 0;
  pages_gather(world->pages, world->device, world->batch, column, &window, 1);
  for (int n = 0; what == RELEASE_TWICE && n < 2; n++) pages_release(world->pages, &window);
}

static void test_misuse_is_a_check(void **state) {
  (void)state;
  for (int what = RELEASE_AFTER_NEW_LIFE; what <= TOO_MANY_WAIT; what++) {
    struct world *world = world_create(2, 4, 16, 0, false, 0);
    assert_true(aborts(misuse, world, what));
    world_destroy(world);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_schedules_keep_every_step),
      cmocka_unit_test(test_pages_needed_is_enough),
      cmocka_unit_test(test_a_whole_round_of_windows_may_wait),
      cmocka_unit_test(test_windows_complete_evenly),
      cmocka_unit_test(test_windows_complete_together),
      cmocka_unit_test(test_pages_of_ended_lives_go_round),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_misuse_is_a_check),
  };
  int failed = 0;
  static const char *const devices[] = {"ref", "guarded"};
  for (int i = 0; i < 2; i++) {
    device_name = devices[i];
    failed += cmocka_run_group_tests_name(device_name, tests, NULL, NULL);
  }
  return failed;
}
