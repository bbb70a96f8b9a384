/* DESIGN. A page is either held, and then in the chain of its slot, or free, and then in the pool's
 * free list; so one pair of links serves both. Both lists run from older to newer by the time a
 * page was begun.
 *
 * Why a page is held is a set of reasons: it is being filled, its own window waits, the window
 * before waits for its first step, or the window after begins with frames of it. The page becomes
 * free when the last reason goes.
 *
 * The free list is kept in order by inserting from its newer end. Windows complete about in the
 * order in which they were begun, because slots step at about the same rate: so the place is nearly
 * always at the end, or a few pages from it. A slot that is much slower than the others walks past
 * what they have freed meanwhile, but it does so rarely, and never past more pages than there are
 * free. */
#include "learner/experience/pages.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

enum { NONE = -1 };

/* Why a page is held, in bits. */
enum hold {
  HOLD_FILLING = 1,
  HOLD_OWN_WINDOW = 2,
  HOLD_WINDOW_BEFORE = 4,
  HOLD_WINDOW_AFTER = 8 /* only with a footprint */
};

struct page {
  int older,
      newer;     /* in the slot's chain while held, in the free list while free; NONE at the ends */
  unsigned hold; /* enum hold; 0: free */
  bool lead;     /* holds the steps before the phase, in its last rows: no window of its own */
  uint64_t begun;      /* counts up over the pool; 0: never */
  uint64_t first_step; /* absolute, in its life */
};

struct slot {
  int newest; /* the page being filled; NONE before the first */
  int skip;   /* steps left before the first page */
  bool alive;
  uint32_t life;
  uint64_t next_first_step; /* of the slot's next page */
};

struct list {
  int oldest, newest;
};

struct pages {
  struct pages_config config; /* read-only after create, as are the pointers */
  struct device *device;
  struct pages_rows rows;
  struct page *page; /* (num_pages) */
  struct slot *slot; /* (num_slots) */
  struct list free;
  int num_free;
  uint64_t begun; /* pages begun so far */
};

/* ---- the pool */

/* Each slot fills one page while its last window waits to be gathered, in another; a third holds
 * the footprint of the window that waits. */
int pages_needed(int num_slots, int footprint) {
  return (footprint ? 3 : 2) * num_slots;
}

static void create_rows(struct pages *pages) {
  const struct pages_config *config = &pages->config;
  const struct step_shape *shape = &config->shape;
  const struct device_ops *ops = pages->device->ops;
  size_t num_pages = (size_t)config->num_pages, rows = num_pages * (size_t)config->page_steps;
  size_t record = device_record_bytes(shape->statistics, shape->action_bytes);
  size_t spare = (size_t)config->spare_rows;
  CHECK(rows + spare <= INT32_MAX, "%zu steps in pages: operations number rows by int32", rows);
  struct pages_rows *to = &pages->rows;
  to->pool = (struct device_pool){
      .observation = ops->alloc(pages->device, (rows + spare) * shape->row_stride),
      .record = ops->alloc(pages->device, rows * record),
      .row_stride = shape->row_stride,
      .record_bytes = record,
      .statistics = shape->statistics,
      .action_bytes = shape->action_bytes,
      .no_action = shape->box ? 0 : 0xff};
  to->start_action = ops->alloc(pages->device, num_pages * (size_t)shape->action_bytes);
  if (shape->state_size)
    to->start_state =
        ops->alloc(pages->device, num_pages * (size_t)shape->state_size * ops->real_bytes);
  to->stamp = check_alloc(rows, sizeof(*to->stamp));
  to->start_depth = check_alloc(num_pages, sizeof(*to->start_depth));
}

struct pages *pages_create(struct device *device, const struct pages_config *config) {
  const struct step_shape *shape = &config->shape;
  CHECK(config->num_slots > 0 && config->page_steps > 0 && shape->state_size >= 0,
        "%d slots, %d steps a page, state of %d", config->num_slots, config->page_steps,
        shape->state_size);
  CHECK(shape->action_bytes > 0 && shape->action_bytes % 4 == 0 && shape->statistics >= 0,
        "actions of %d bytes, %d statistics", shape->action_bytes, shape->statistics);
  CHECK(config->num_pages >= pages_needed(config->num_slots, shape->footprint),
        "%d pages for %d slots", config->num_pages, config->num_slots);
  CHECK(shape->footprint >= 0 && shape->footprint <= config->page_steps,
        "a footprint of %d with pages of %d steps", shape->footprint, config->page_steps);
  struct pages *pages = check_alloc(1, sizeof(*pages));
  *pages = (struct pages){.config = *config, .device = device, .num_free = config->num_pages};
  create_rows(pages);

  /* All pages are free, in the order of their numbers. */
  pages->page = check_alloc((size_t)config->num_pages, sizeof(*pages->page));
  for (int i = 0; i < config->num_pages; i++)
    pages->page[i] = (struct page){.older = i - 1, .newer = i + 1};
  pages->page[config->num_pages - 1].newer = NONE;
  pages->free = (struct list){0, config->num_pages - 1};

  pages->slot = check_alloc((size_t)config->num_slots, sizeof(*pages->slot));
  for (int i = 0; i < config->num_slots; i++) pages->slot[i].newest = NONE;
  pages->rows.cursor = check_alloc((size_t)config->num_slots, sizeof(*pages->rows.cursor));
  return pages;
}

void pages_destroy(struct pages *pages) {
  if (!pages) return;
  struct pages_rows *rows = &pages->rows;
  void *arrays[] = {rows->pool.observation, rows->pool.record, rows->start_state,
                    rows->start_action};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
    if (arrays[i]) pages->device->ops->release(pages->device, arrays[i]);
  free(pages->page);
  free(pages->slot);
  free(rows->stamp);
  free(rows->start_depth);
  free(rows->cursor);
  free(pages);
}

const struct pages_rows *pages_rows(const struct pages *pages) {
  return &pages->rows;
}

size_t pages_observation_bytes(const struct pages *pages) {
  return (size_t)pages_capacity_steps(pages) * pages->config.shape.row_stride;
}

int64_t pages_capacity_steps(const struct pages *pages) {
  return (int64_t)pages->config.num_pages * pages->config.page_steps;
}

int pages_held(const struct pages *pages) {
  return pages->config.num_pages - pages->num_free;
}

int pages_free(const struct pages *pages) {
  return pages->num_free;
}

/* ---- lists */

static void unlink_page(struct pages *pages, int at) {
  struct page *page = &pages->page[at];
  if (page->older != NONE) pages->page[page->older].newer = page->newer;
  if (page->newer != NONE) pages->page[page->newer].older = page->older;
}

static int take_oldest_free(struct pages *pages) {
  int at = pages->free.oldest;
  CHECK(at != NONE, "all %d pages are held: gather or release the closed windows first",
        pages->config.num_pages);
  pages->free.oldest = pages->page[at].newer;
  if (pages->free.oldest == NONE) pages->free.newest = NONE;
  unlink_page(pages, at);
  pages->num_free--;
  return at;
}

/* Puts a page that is in no list behind the free pages that were begun before it. */
static void insert_free(struct pages *pages, int at) {
  struct page *page = &pages->page[at];
  int older = pages->free.newest, newer = NONE;
  while (older != NONE && pages->page[older].begun > page->begun) {
    newer = older;
    older = pages->page[older].older;
  }
  page->older = older;
  page->newer = newer;
  if (older != NONE)
    pages->page[older].newer = at;
  else
    pages->free.oldest = at;
  if (newer != NONE)
    pages->page[newer].older = at;
  else
    pages->free.newest = at;
  pages->num_free++;
}

/* Takes a reason away from a page of the slot; without any it is free. */
static void drop_hold(struct pages *pages, struct slot *slot, int at, unsigned hold) {
  struct page *page = &pages->page[at];
  page->hold &= ~hold;
  if (page->hold) return;
  if (slot->newest == at) slot->newest = page->older;
  unlink_page(pages, at);
  insert_free(pages, at);
}

/* ---- lives */

static struct slot *slot_of(struct pages *pages, int slot) {
  CHECK(slot >= 0 && slot < pages->config.num_slots, "slot %d of %d", slot,
        pages->config.num_slots);
  return &pages->slot[slot];
}

/* Frees what the slot held. */
static void end_life(struct pages *pages, int slot_index) {
  struct slot *slot = slot_of(pages, slot_index);
  while (slot->newest != NONE) drop_hold(pages, slot, slot->newest, ~0u);
  slot->alive = false;
  pages->rows.cursor[slot_index].left = 0;
}

/* Steps until the slot that began a page last begins its next one. A slot whose actor has gone has
 * not begun one for long. */
static int steps_to_next_page(const struct pages *pages) {
  uint64_t begun = 0;
  int steps = 0;
  for (int i = 0; i < pages->config.num_slots; i++) {
    int newest = pages->slot[i].newest;
    if (newest == NONE || pages->page[newest].begun <= begun) continue;
    begun = pages->page[newest].begun;
    steps = pages->rows.cursor[i].left;
  }
  return steps;
}

static int phase_of(const struct pages *pages, int slot_index) {
  switch (pages->config.phase) {
    case PAGES_STAGGERED: /* neighbours, whose steps come in one message, get different ones */
      return slot_index % pages->config.page_steps;
    case PAGES_TOGETHER:
      return steps_to_next_page(pages);
    case PAGES_AT_ONCE:
      break;
  }
  return 0;
}

void pages_begin_life(struct pages *pages, int slot_index, uint32_t life) {
  end_life(pages, slot_index);
  int phase = phase_of(pages, slot_index);
  *slot_of(pages, slot_index) = (struct slot){.newest = NONE,
                                              .skip = phase,
                                              .alive = true,
                                              .life = life,
                                              .next_first_step = (uint64_t)phase};
}

/* ---- steps */

/* Where the steps before the phase go: the end of a page, so that the frames before the first
 * window stand where those before every other stand. */
static struct pages_place begin_lead(struct pages *pages, int slot_index) {
  struct slot *slot = &pages->slot[slot_index];
  int at = take_oldest_free(pages), T = pages->config.page_steps, steps = slot->skip;
  pages->page[at] = (struct page){
      .older = NONE, .newer = NONE, .hold = HOLD_FILLING, .lead = true, .begun = ++pages->begun};
  int64_t row = (int64_t)at * T + (T - steps);
  slot->newest = at;
  slot->skip = 0;
  pages->rows.cursor[slot_index] = (struct pages_cursor){.next_row = row + 1, .left = steps - 1};
  return (struct pages_place){.row = row, .page = at};
}

/* The page that is full now waits for its window, and for the one that begins. */
static void close_page(struct pages *pages, struct page *full) {
  full->hold &= ~(unsigned)HOLD_FILLING;
  if (!full->lead) full->hold |= HOLD_OWN_WINDOW;
  if (pages->config.shape.footprint) full->hold |= HOLD_WINDOW_AFTER;
}

/* Takes a page for the slot; `before`, the page that is full now, closes its window. */
static struct pages_place begin_page(struct pages *pages, int slot_index) {
  struct slot *slot = &pages->slot[slot_index];
  int before = slot->newest, at = take_oldest_free(pages), T = pages->config.page_steps;
  struct page *page = &pages->page[at];
  *page = (struct page){.older = before,
                        .newer = NONE,
                        .hold = HOLD_FILLING,
                        .begun = ++pages->begun,
                        .first_step = slot->next_first_step};
  int64_t row = (int64_t)at * T;
  slot->newest = at;
  pages->rows.cursor[slot_index] = (struct pages_cursor){.next_row = row + 1, .left = T - 1};
  slot->next_first_step += (uint64_t)T;

  struct pages_place place = {.row = row, .page = at, .starts_window = true};
  if (before == NONE) return place;
  struct page *full = &pages->page[before];
  full->newer = at;
  close_page(pages, full);
  if (full->lead) return place;
  page->hold |= HOLD_WINDOW_BEFORE;
  place.closes_window = true;
  place.window = (struct window){slot_index, slot->life, full->first_step};
  return place;
}

struct pages_place pages_append(struct pages *pages, int slot_index) {
  struct slot *slot = slot_of(pages, slot_index);
  int64_t row = pages_try_append(&pages->rows, slot_index);
  if (row >= 0) return (struct pages_place){.row = row, .page = slot->newest};
  CHECK(slot->alive, "slot %d has no life: begin one before its first step", slot_index);
  if (slot->skip == 0) return begin_page(pages, slot_index);
  if (pages->config.shape.footprint) return begin_lead(pages, slot_index);
  slot->skip--;
  return (struct pages_place){.row = NONE, .page = NONE};
}

void pages_write(struct pages *pages, const int32_t *row, const struct device_steps *steps, int B) {
  pages->device->ops->scatter_steps(pages->device, &pages->rows.pool, row, steps, B);
}

void pages_write_starts(struct pages *pages, const int32_t *page, const void *previous_action,
                        const real *state, int B) {
  const struct device_ops *ops = pages->device->ops;
  const struct step_shape *shape = &pages->config.shape;
  ops->scatter_rows(pages->device, pages->rows.start_action, previous_action, page, B,
                    (size_t)shape->action_bytes);
  if (shape->state_size)
    ops->scatter_rows(pages->device, pages->rows.start_state, state, page, B,
                      (size_t)shape->state_size * ops->real_bytes);
}

int64_t pages_row_before(const struct pages *pages, int slot_index, int k) {
  int64_t T = pages->config.page_steps, next = pages->rows.cursor[slot_index].next_row;
  int at = pages->slot[slot_index].newest;
  int64_t in_page = next - at * T;
  return k <= in_page ? next - k : pages->page[at].older * T + T - (k - in_page);
}

/* ---- windows */

/* The page a closed window begins in: nearly always the last but one of its slot. */
static int page_of(struct pages *pages, const struct window *window) {
  struct slot *slot = slot_of(pages, window->slot);
  CHECK(slot->alive && slot->life == window->life,
        "a window of life %u of slot %d: it went when that life ended", window->life, window->slot);
  int at = slot->newest;
  while (at != NONE && pages->page[at].first_step > window->first_step) at = pages->page[at].older;
  CHECK(at != NONE && pages->page[at].first_step == window->first_step &&
            pages->page[at].hold & HOLD_OWN_WINDOW,
        "the window at step %llu of slot %d is not closed, or was released before",
        (unsigned long long)window->first_step, window->slot);
  return at;
}

static void release_page(struct pages *pages, const struct window *window, int at) {
  struct slot *slot = &pages->slot[window->slot];
  int next = pages->page[at].newer, before = pages->page[at].older;
  drop_hold(pages, slot, at, HOLD_OWN_WINDOW);
  drop_hold(pages, slot, next, HOLD_WINDOW_BEFORE);
  if (before != NONE && pages->config.shape.footprint)
    drop_hold(pages, slot, before, HOLD_WINDOW_AFTER);
}

void pages_release(struct pages *pages, const struct window *window) {
  release_page(pages, window, page_of(pages, window));
}

int64_t pages_version(struct pages *pages, const struct window *window, int t) {
  size_t row = (size_t)page_of(pages, window) * (size_t)pages->config.page_steps + (size_t)t;
  return step_stamp_version(pages->rows.stamp[row]);
}

static bool same_shape(const struct step_shape *a, const struct step_shape *b) {
  return a->row_stride == b->row_stride && a->action_bytes == b->action_bytes && a->box == b->box &&
         a->statistics == b->statistics && a->state_size == b->state_size &&
         a->footprint == b->footprint;
}

/* What the host keeps of the steps, and of those before them. */
static void gather_stamps(const struct pages *pages, struct train_batch *batch, int column, int at,
                          int next) {
  const struct pages_rows *rows = &pages->rows;
  size_t T = (size_t)pages->config.page_steps;
  memcpy(train_batch_stamp(batch, 0, column), rows->stamp + (size_t)at * T,
         T * sizeof(*rows->stamp));
  *train_batch_stamp(batch, (int)T, column) = rows->stamp[(size_t)next * T];
  batch->depth[column] = rows->start_depth[at];
}

void pages_gather(struct pages *pages, struct train_batch *batch, int column,
                  const struct window *window) {
  const struct pages_config *config = &pages->config;
  CHECK(batch->T == config->page_steps && same_shape(&batch->shape, &config->shape),
        "a batch of %d steps of %zu bytes, state of %d; pages of %d, %zu, %d", batch->T,
        batch->shape.row_stride, batch->shape.state_size, config->page_steps,
        config->shape.row_stride, config->shape.state_size);
  CHECK(column >= 0 && column < batch->N, "column %d of %d", column, batch->N);
  int at = page_of(pages, window), next = pages->page[at].newer;
  gather_stamps(pages, batch, column, at, next);

  /* All rows of the window's page, then the first row of the next; the steps before the window are
   * the last ones of the page before its own. */
  const struct pages_rows *rows = &pages->rows;
  int64_t T = config->page_steps;
  struct device_unroll unroll = {
      .T = config->page_steps,
      .first = at * T,
      .last = next * T,
      .before = pages->page[at].older * T + T - 1,
      .depth = config->shape.footprint ? batch->depth[column] : 0,
      .previous_action =
          (const uint8_t *)rows->start_action + (size_t)at * (size_t)config->shape.action_bytes};
  struct device_steps steps = train_batch_steps(batch);
  const struct device_ops *ops = pages->device->ops;
  ops->gather_steps(pages->device, &steps, batch->N, column, &rows->pool, &unroll);
  size_t S = (size_t)config->shape.state_size;
  if (S)
    ops->copy(pages->device, device_at(pages->device, batch->state, (size_t)column * S),
              device_at(pages->device, rows->start_state, (size_t)at * S), S);
  batch->window[column] = *window;
  release_page(pages, window, at);
}
