/* DESIGN. A page is either held, and then in the chain of its slot, or free, and then in the pool's
 * free list; so one pair of links serves both. Both lists run from older to newer by the time a
 * page was begun.
 *
 * A window with the frames before it is its *span*: footprint + T + 1 steps. Spans begin at whole
 * strides of a page; what a window needs is in the pages of its span.
 *
 * A page is held as often as there is a reason: it is being filled, or steps come that show frames
 * of it, or a window with a part of its span in it has not been released. Windows are counted when
 * they begin, in the page that their span begins in, and in others when these are begun. The page
 * becomes free when the last reason goes.
 *
 * The free list is kept in order by inserting from its newer end. Windows complete about in the
 * order in which they were begun, because slots step at about the same rate: so the place is nearly
 * always at the end, or a few pages from it. A slot that is much slower than the others walks past
 * what they have freed meanwhile, but it does so rarely, and never past more pages than there are
 * free.
 *
 * A window's pages are found from its first one by links that outlive the chain: each page knows
 * the next one of its life, with its generation, so a link into a reused page is seen. */
#include "learner/experience/pages.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/experience/pages_state.h"

/* ---- the pool */

static void set_defaults(struct pages_config *config) {
  if (!config->stride) config->stride = config->page_steps;
  if (!config->window_steps) config->window_steps = config->page_steps;
}

/* From the first page of a window's span to the one that is being filled just before the slot's
 * next window closes: for the last span of a page. */
int pages_needed(const struct pages_config *config) {
  struct pages_config full = *config;
  set_defaults(&full);
  int pages = (full.page_steps + span_steps(&full) - 1) / full.page_steps + 1;
  return pages * full.num_slots;
}

int pages_most_spans(const struct pages_config *config) {
  struct pages_config full = *config;
  set_defaults(&full);
  int latest = full.page_steps - full.stride + full.shape.footprint % full.stride;
  return (latest + full.window_steps) / full.page_steps + 1;
}

static void create_rows(struct pages *pages) {
  const struct pages_config *config = &pages->config;
  const struct step_shape *shape = &config->shape;
  const struct device_ops *ops = pages->device->ops;
  size_t rows = (size_t)config->num_pages * (size_t)config->page_steps;
  size_t starts = rows / (size_t)config->stride;
  size_t record = device_record_bytes(shape->statistics, shape->action_bytes);
  size_t spare = (size_t)config->spare_rows;
  CHECK(rows + spare <= INT32_MAX, "%zu steps in pages: operations number rows by int32", rows);
  struct pages_rows *to = &pages->rows;
  void *(*alloc_observations)(struct device *, size_t) =
      config->spills ? ops->alloc_spilled : ops->alloc;
  to->pool = (struct device_pool){
      .observation = alloc_observations(pages->device, (rows + spare) * shape->row_stride),
      .record = ops->alloc(pages->device, rows * record),
      .row_stride = shape->row_stride,
      .record_bytes = record,
      .statistics = shape->statistics,
      .action_bytes = shape->action_bytes,
      .no_action = step_shape_no_action(shape)};
  to->start_action = ops->alloc(pages->device, starts * (size_t)shape->action_bytes);
  if (shape->state_size)
    to->start_state =
        ops->alloc(pages->device, starts * (size_t)shape->state_size * ops->real_bytes);
  to->stamp = check_alloc(rows, sizeof(*to->stamp));
  to->start_depth = check_alloc(starts, sizeof(*to->start_depth));
  if (config->replays)
    to->trail = check_alloc(rows * (size_t)(1 + shape->statistics), sizeof(*to->trail));
}

static void check_config(const struct pages_config *config) {
  const struct step_shape *shape = &config->shape;
  CHECK(config->num_slots > 0 && config->page_steps > 0 && shape->state_size >= 0,
        "%d slots, %d steps a page, state of %d", config->num_slots, config->page_steps,
        shape->state_size);
  CHECK(config->stride > 0 && config->page_steps % config->stride == 0 &&
            config->window_steps >= config->stride,
        "windows of %d steps every %d, pages of %d", config->window_steps, config->stride,
        config->page_steps);
  CHECK(pages_most_spans(config) <= DEVICE_MAX_SPANS, "windows of %d steps every %d, pages of %d",
        config->window_steps, config->stride, config->page_steps);
  CHECK(shape->action_bytes > 0 && shape->action_bytes % 4 == 0 && shape->statistics >= 0,
        "actions of %d bytes, %d statistics", shape->action_bytes, shape->statistics);
  CHECK(config->num_pages >= pages_needed(config), "%d pages for %d slots", config->num_pages,
        config->num_slots);
  CHECK(shape->footprint >= 0 && shape->footprint < config->page_steps &&
            shape->footprint <= DEVICE_MAX_FOOTPRINT,
        "a footprint of %d with pages of %d steps", shape->footprint, config->page_steps);
}

void pages_empty(struct pages *pages) {
  int last = pages->config.num_pages - 1;
  for (int i = 0; i <= last; i++) pages->page[i] = (struct page){.older = i - 1, .newer = i + 1};
  pages->page[last].newer = NONE;
  pages->free = (struct list){0, last};
  pages->num_free = last + 1;
  pages->generation = 0;
}

struct pages *pages_create(struct device *device, const struct pages_config *config_given) {
  struct pages_config config = *config_given;
  set_defaults(&config);
  if (!config.num_pages) config.num_pages = pages_needed(&config);
  check_config(&config);
  struct pages *pages = check_alloc(1, sizeof(*pages));
  *pages = (struct pages){.config = config, .device = device};
  pthread_mutex_init(&pages->lock, NULL);
  pthread_cond_init(&pages->wrote, NULL);
  create_rows(pages);
  pages->page = check_alloc((size_t)config.num_pages, sizeof(*pages->page));
  pages_empty(pages);
  pages->slot = check_alloc((size_t)config.num_slots, sizeof(*pages->slot));
  for (int i = 0; i < config.num_slots; i++) pages->slot[i].newest = NONE;
  pages->rows.cursor = check_alloc((size_t)config.num_slots, sizeof(*pages->rows.cursor));
  return pages;
}

void pages_destroy(struct pages *pages) {
  if (!pages) return;
  struct pages_rows *rows = &pages->rows;
  void *arrays[] = {rows->pool.observation, rows->pool.record, rows->start_state,
                    rows->start_action};
  device_release_all(pages->device, arrays, sizeof(arrays) / sizeof(arrays[0]));
  pthread_cond_destroy(&pages->wrote);
  pthread_mutex_destroy(&pages->lock);
  free(pages->page);
  free(pages->slot);
  free(rows->stamp);
  free(rows->trail);
  free(rows->start_depth);
  free(rows->cursor);
  free(pages);
}

const struct pages_rows *pages_rows(const struct pages *pages) {
  return &pages->rows;
}

const struct pages_config *pages_config(const struct pages *pages) {
  return &pages->config;
}

int64_t pages_capacity_steps(const struct pages *pages) {
  return (int64_t)pages->config.num_pages * pages->config.page_steps;
}

static void lock(struct pages *pages) {
  if (pages->config.replays) pthread_mutex_lock(&pages->lock);
}

static void unlock(struct pages *pages) {
  if (pages->config.replays) pthread_mutex_unlock(&pages->lock);
}

/* ---- links between the pages of a life */

static struct link link_to(const struct pages *pages, int at) {
  return (struct link){at, at == NONE ? 0 : pages->page[at].generation};
}

/* The start of the span that begins at an offset of a page. */
static int32_t start_at(const struct pages *pages, int at, int offset) {
  return at * starts_per_page(pages) + offset / pages->config.stride;
}

/* ---- lists */

static void unlink_page(struct pages *pages, int at) {
  struct page *page = &pages->page[at];
  if (page->older != NONE) pages->page[page->older].newer = page->newer;
  if (page->newer != NONE) pages->page[page->newer].older = page->older;
}

/* Takes a page out of the free list. */
static void unlink_free(struct pages *pages, int at) {
  const struct page *page = &pages->page[at];
  if (pages->free.oldest == at) pages->free.oldest = page->newer;
  if (pages->free.newest == at) pages->free.newest = page->older;
  unlink_page(pages, at);
  pages->num_free--;
}

/* Names the windows that go with the page: those whose spans begin in it or reach into it. */
static void announce_reuse(const struct pages *pages, int at) {
  const struct pages_config *config = &pages->config;
  const struct page *from = &pages->page[at];
  int per_page = starts_per_page(pages);
  pages->gone(pages->context, at * per_page, per_page);
  for (int back = 1; leads_to(pages, &from->previous); back++) {
    int before = from->previous.page;
    int reach = back * config->page_steps - span_steps(config); /* least offset that reaches */
    if (reach >= config->page_steps) break;
    int first = reach > 0 ? (reach + config->stride - 1) / config->stride : 0;
    pages->gone(pages->context, before * per_page + first, per_page - first);
    from = &pages->page[before];
  }
}

static int find_oldest_free(const struct pages *pages) {
  int at = pages->free.oldest;
  while (at != NONE && pages->page[at].pins) at = pages->page[at].newer;
  CHECK(at != NONE, "all %d pages are held: gather or release the closed windows first",
        pages->config.num_pages);
  return at;
}

static bool is_unwritten(const struct pages *pages, int at) {
  uint64_t generation = pages->page[at].generation;
  return pages->imaged && generation > pages->written && generation <= pages->image_newest;
}

/* A page that a file needs is waited for, not skipped as a pinned one: so which page is taken does
 * not depend on how fast the file is written. */
static int take_oldest_free(struct pages *pages) {
  int at;
  while (is_unwritten(pages, at = find_oldest_free(pages))) {
    wait_time_begin(&pages->image_wait);
    pthread_cond_wait(&pages->wrote, &pages->lock);
  }
  wait_time_end(&pages->image_wait, NULL);
  if (pages->gone && pages->page[at].generation) announce_reuse(pages, at);
  unlink_free(pages, at);
  return at;
}

/* Puts a page that is in no list behind the free pages that were begun before it. */
static void insert_free(struct pages *pages, int at) {
  struct page *page = &pages->page[at];
  int older = pages->free.newest, newer = NONE;
  while (older != NONE && pages->page[older].generation > page->generation) {
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

/* Removes one reason to hold a page of the slot; without any it is free. */
static void drop_hold(struct pages *pages, struct slot *slot, int at) {
  struct page *page = &pages->page[at];
  CHECK(page->holds > 0, "page %d is not held: a window was released twice, or after its life", at);
  if (--page->holds) return;
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
  while (slot->newest != NONE) {
    pages->page[slot->newest].holds = 1;
    drop_hold(pages, slot, slot->newest);
  }
  slot->alive = false;
  pages->rows.cursor[slot_index].left = 0;
}

/* Where the slot that began a page last is in it. A slot whose actor has gone has not begun one for
 * long. Without any slot: where a window begins. */
static int offset_of_others(const struct pages *pages) {
  uint64_t latest = 0;
  int offset = pages->config.shape.footprint;
  for (int i = 0; i < pages->config.num_slots; i++) {
    int newest = pages->slot[i].newest;
    if (newest == NONE || pages->page[newest].generation <= latest) continue;
    latest = pages->page[newest].generation;
    int64_t next = pages->rows.cursor[i].next_row - (int64_t)newest * pages->config.page_steps;
    offset = (int)next % pages->config.page_steps;
  }
  return offset;
}

/* Offset in its first page at which a life begins. */
static int offset_of_life(const struct pages *pages, int slot_index) {
  int footprint = pages->config.shape.footprint, T = pages->config.page_steps;
  switch (pages->config.phase) {
    case PAGES_STAGGERED: /* neighbours, whose steps come in one message, get different ones */
      return (footprint + T - slot_index % T) % T;
    case PAGES_TOGETHER:
      return offset_of_others(pages);
    case PAGES_AT_ONCE:
      break;
  }
  return footprint;
}

void pages_begin_life(struct pages *pages, int slot_index, uint32_t life) {
  int stride = pages->config.stride, footprint = pages->config.shape.footprint;
  lock(pages);
  end_life(pages, slot_index);
  int offset = offset_of_life(pages, slot_index);
  int past = offset > footprint ? offset - footprint : 0; /* the first span begins behind these */
  int64_t first = (past + stride - 1) / stride * stride + footprint - offset;
  *slot_of(pages, slot_index) = (struct slot){.newest = NONE,
                                              .alive = true,
                                              .life = life,
                                              .offset = offset,
                                              .first_window = first,
                                              .opens = first,
                                              .closes = first + pages->config.window_steps};
  unlock(pages);
}

/* ---- steps */

/* Takes a page for the slot, behind its newest. */
static int chain_page(struct pages *pages, int slot_index, int64_t first_step) {
  struct slot *slot = &pages->slot[slot_index];
  int before = slot->newest, at = take_oldest_free(pages);
  pages->page[at] = (struct page){.older = before,
                                  .newer = NONE,
                                  .holds = 1,
                                  .generation = ++pages->generation,
                                  .first_step = first_step,
                                  .slot = slot_index,
                                  .life = slot->life,
                                  .previous = link_to(pages, before),
                                  .next = {NONE, 0}};
  if (before != NONE) {
    pages->page[before].newer = at;
    pages->page[before].next = link_to(pages, at);
  }
  slot->newest = at;
  return at;
}

/* Windows whose spans begin before a page and reach into it. */
static int windows_into(const struct pages *pages, const struct slot *slot, int64_t first_step) {
  int64_t before = first_step + pages->config.shape.footprint - slot->first_window;
  int64_t reach = span_steps(&pages->config);
  if (before <= 0) return 0;
  return (int)((before < reach ? before : reach) / pages->config.stride);
}

/* Takes a page for the slot's next steps; the one before it is full. */
static void begin_page(struct pages *pages, int slot_index) {
  struct slot *slot = &pages->slot[slot_index];
  int before = slot->newest, offset = before == NONE ? slot->offset : 0;
  int64_t first_step =
      before == NONE ? -offset : pages->page[before].first_step + pages->config.page_steps;
  int at = chain_page(pages, slot_index, first_step);
  pages->page[at].holds += windows_into(pages, slot, first_step);
  pages->rows.cursor[slot_index].next_row = (int64_t)at * pages->config.page_steps + offset;
}

/* The window that begins at this offset of the slot's newest page is open from now on. Its span may
 * begin in the page before, which is held as yet. */
static int32_t open_window(struct pages *pages, int slot_index, int offset) {
  int at = pages->slot[slot_index].newest;
  offset -= pages->config.shape.footprint;
  if (offset < 0) {
    offset += pages->config.page_steps;
    at = pages->page[at].previous.page;
  }
  pages->page[at].holds++;
  return start_at(pages, at, offset);
}

/* The window whose last step is at this offset of the slot's newest page. */
static struct window closed_window(const struct pages *pages, int slot_index, int offset) {
  int at = pages->slot[slot_index].newest;
  for (offset -= span_steps(&pages->config); offset < 0; offset += pages->config.page_steps)
    at = pages->page[at].older;
  int32_t start = start_at(pages, at, offset);
  return (struct window){
      .slot = slot_index,
      .life = pages->page[at].life,
      .first_step = (uint64_t)first_step_of(pages, start),
      .start = start,
      .generation = pages->page[at].generation,
  };
}

/* Rows behind an offset of the slot's newest page until something begins or ends there. */
static int rows_left(const struct pages *pages, const struct slot *slot, int offset) {
  int64_t step = pages->page[slot->newest].first_step + offset;
  int64_t left = pages->config.page_steps - offset;
  int to_footprint = pages->config.shape.footprint - offset;
  if (slot->opens - step < left) left = slot->opens - step;
  if (slot->closes - step < left) left = slot->closes - step;
  if (to_footprint > 0 && to_footprint < left) left = to_footprint;
  return (int)left - 1;
}

/* The step at an offset of the slot's newest page, where a window may begin or end, or both, and
 * from which on no step shows frames of the page before. */
static struct pages_place place_event(struct pages *pages, int slot_index, int offset) {
  const struct pages_config *config = &pages->config;
  struct slot *slot = &pages->slot[slot_index];
  struct pages_cursor *cursor = &pages->rows.cursor[slot_index];
  const struct page *page = &pages->page[slot->newest];
  int64_t step = page->first_step + offset;
  struct pages_place place = {.row = cursor->next_row++, .start = NONE};
  if (step == slot->opens) {
    place.start = open_window(pages, slot_index, offset);
    slot->opens += config->stride;
  }
  if (step == slot->closes) {
    place.closes_window = true;
    place.window = closed_window(pages, slot_index, offset);
    slot->closes += config->stride;
  }
  if (offset == config->shape.footprint && page->previous.page != NONE)
    drop_hold(pages, slot, page->previous.page);
  cursor->left = rows_left(pages, slot, offset);
  return place;
}

static struct pages_place append_locked(struct pages *pages, int slot_index) {
  struct slot *slot = slot_of(pages, slot_index);
  int64_t T = pages->config.page_steps;
  CHECK(slot->alive, "slot %d has no life: begin one before its first step", slot_index);
  int64_t next = pages->rows.cursor[slot_index].next_row;
  if (slot->newest == NONE || next == (slot->newest + 1) * T) begin_page(pages, slot_index);
  next = pages->rows.cursor[slot_index].next_row;
  return place_event(pages, slot_index, (int)(next - slot->newest * T));
}

struct pages_place pages_append(struct pages *pages, int slot_index) {
  slot_of(pages, slot_index);
  int64_t row = pages_try_append(&pages->rows, slot_index);
  if (row >= 0) return (struct pages_place){.row = row, .start = NONE};
  lock(pages);
  struct pages_place place = append_locked(pages, slot_index);
  unlock(pages);
  return place;
}

void pages_write(struct pages *pages, const int32_t *row, const struct device_steps *steps, int B) {
  pages->device->ops->scatter_steps(pages->device, &pages->rows.pool, row, steps, B);
}

void pages_write_starts(struct pages *pages, const int32_t *start, const void *previous_action,
                        const real *state, int B) {
  const struct device_ops *ops = pages->device->ops;
  const struct step_shape *shape = &pages->config.shape;
  ops->scatter_rows(pages->device, pages->rows.start_action, previous_action, start, B,
                    (size_t)shape->action_bytes);
  if (shape->state_size)
    ops->scatter_rows(pages->device, pages->rows.start_state, state, start, B,
                      (size_t)shape->state_size * ops->real_bytes);
}

int64_t pages_row_before(const struct pages *pages, int slot_index, int k) {
  int at = pages->slot[slot_index].newest;
  int64_t next = pages->rows.cursor[slot_index].next_row;
  return row_before(pages, at, (int)(next - (int64_t)at * pages->config.page_steps), k);
}

void pages_release(struct pages *pages, const struct window *window) {
  lock(pages);
  struct slot *slot = slot_of(pages, window->slot);
  int at = pages_first_page(pages, window);
  for (int i = pages_behind(pages, window->start);; i--) {
    int next = pages->page[at].next.page;
    drop_hold(pages, slot, at);
    if (i == 0) break;
    at = next;
  }
  unlock(pages);
}

/* ---- pages that replay */

pthread_mutex_t *pages_lock(struct pages *pages) {
  return &pages->lock;
}

uint64_t pages_begun(const struct pages *pages) {
  return pages->generation;
}

void pages_on_reuse(struct pages *pages, void (*gone)(void *context, int32_t first, int count),
                    void *context) {
  pages->gone = gone;
  pages->context = context;
}

void pages_begin_image(struct pages *pages) {
  pages->imaged = true;
  pages->image_newest = pages->generation;
  pages->written = 0;
}

bool pages_wrote(struct pages *pages, uint64_t generation) {
  if (!pages->imaged) return false;
  pages->written = generation;
  pthread_cond_broadcast(&pages->wrote);
  return true;
}

void pages_end_image(struct pages *pages) {
  pages->imaged = false;
  pthread_cond_broadcast(&pages->wrote);
}

struct wait_time pages_image_wait(const struct pages *pages) {
  return pages->image_wait;
}
