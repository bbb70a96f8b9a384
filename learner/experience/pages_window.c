/* Closed windows: where their steps are, how they come into a batch, and, in a replay, which are
 * still there and which are pinned. pages.c has the pages that they lie in, and DESIGN. */
#include "learner/experience/pages.h"

#include <string.h>

#include "common/base/check.h"
#include "learner/experience/pages_state.h"

/* ---- gathering */

int pages_first_page(const struct pages *pages, const struct window *window) {
  CHECK(window->start >= 0 && window->start < pages_num_starts(pages), "window at start %d of %d",
        window->start, pages_num_starts(pages));
  int at = page_of(pages, window->start);
  const struct page *page = &pages->page[at];
  CHECK(page->generation == window->generation && page->slot == window->slot &&
            page->life == window->life &&
            first_step_of(pages, window->start) == (int64_t)window->first_step,
        "the window at step %llu of slot %d is not there", (unsigned long long)window->first_step,
        window->slot);
  return at;
}

/* Where step t of a window is. */
struct place {
  int page, offset;
};

static struct place place_of(const struct pages *pages, const struct window *window, int t) {
  struct place place = {pages_first_page(pages, window),
                        offset_of(pages, window->start) + pages->config.shape.footprint + t};
  for (; place.offset >= pages->config.page_steps; place.offset -= pages->config.page_steps)
    place.page = pages->page[place.page].next.page;
  return place;
}

int64_t pages_row(const struct pages *pages, const struct window *window, int t) {
  struct place place = place_of(pages, window, t);
  return (int64_t)place.page * pages->config.page_steps + place.offset;
}

static bool same_shape(const struct step_shape *a, const struct step_shape *b) {
  return a->row_stride == b->row_stride && a->action_bytes == b->action_bytes && a->box == b->box &&
         a->statistics == b->statistics && a->state_size == b->state_size &&
         a->footprint == b->footprint;
}

/* What the host keeps of the steps. */
static void gather_stamps(const struct pages *pages, struct train_batch *batch, int column,
                          const struct device_unroll *unroll) {
  const uint64_t *stamp = pages->rows.stamp;
  uint64_t *to = train_batch_stamp(batch, 0, column);
  for (int s = 0; s < unroll->num_spans; to += unroll->span[s++].count)
    memcpy(to, stamp + unroll->span[s].row, (size_t)unroll->span[s].count * sizeof(*stamp));
}

struct device_unroll pages_unroll(const struct pages *pages, const struct window *window) {
  const struct pages_config *config = &pages->config;
  struct place first = place_of(pages, window, 0);
  int at = first.page, offset = first.offset;
  struct device_unroll unroll = {
      .depth = config->shape.footprint ? pages->rows.start_depth[window->start] : 0,
      .previous_action = (const uint8_t *)pages->rows.start_action +
                         (size_t)window->start * (size_t)config->shape.action_bytes};
  for (int k = 0; k < unroll.depth; k++)
    unroll.before[k] = (int32_t)row_before(pages, at, offset, k + 1);
  for (int left = config->window_steps + 1; left > 0; offset = 0) {
    int room = config->page_steps - offset, count = left < room ? left : room;
    unroll.span[unroll.num_spans].row = at * config->page_steps + offset;
    unroll.span[unroll.num_spans++].count = count;
    left -= count;
    if (left > 0) at = pages->page[at].next.page;
  }
  return unroll;
}

/* The start of the slot's next window, which the window reaches. */
static int32_t next_start(const struct pages *pages, const struct window *window) {
  int at = page_of(pages, window->start), per_page = starts_per_page(pages);
  bool is_last = (window->start + 1) % per_page == 0;
  return is_last ? pages->page[at].next.page * per_page : window->start + 1;
}

/* The part of the batch's table that one gather reads. */
struct entries {
  struct device_unroll *unroll;
  int32_t *start, *next_start;
};

static struct entries entries_at(void *table, int column, int count) {
  struct entries entries;
  entries.unroll = (struct device_unroll *)((char *)table + (size_t)column * TRAIN_BATCH_ENTRY);
  entries.start = (int32_t *)(entries.unroll + count);
  entries.next_start = entries.start + count;
  return entries;
}

/* All that the host knows of a window, and what the device will read of it. */
static void enter_window(const struct pages *pages, struct train_batch *batch, int column,
                         const struct window *window, const struct entries *entries, int k) {
  entries->unroll[k] = pages_unroll(pages, window);
  entries->start[k] = window->start;
  entries->next_start[k] = batch->next_state ? next_start(pages, window) : -1;
  gather_stamps(pages, batch, column, &entries->unroll[k]);
  batch->depth[column] = entries->unroll[k].depth;
  batch->window[column] = *window;
}

static void check_batch(const struct pages *pages, const struct train_batch *batch, int column,
                        int count) {
  const struct pages_config *config = &pages->config;
  CHECK(batch->T == config->window_steps && same_shape(&batch->shape, &config->shape),
        "a batch of %d steps of %zu bytes, state of %d; windows of %d, %zu, %d", batch->T,
        batch->shape.row_stride, batch->shape.state_size, config->window_steps,
        config->shape.row_stride, config->shape.state_size);
  CHECK(column >= 0 && count > 0 && count <= batch->N - column, "%d columns from %d of %d", count,
        column, batch->N);
  CHECK(!batch->next_state || batch->next_step == config->stride, "windows every %d steps, not %d",
        config->stride, batch->next_step);
}

/* The states of `count` starts, into the columns of states (N, S) from `column` on. */
static void gather_states(const struct pages *pages, struct device *device, real *states,
                          int column, const int32_t *start, int count) {
  size_t S = (size_t)pages->config.shape.state_size;
  device->ops->gather_rows(device, device_at(device, states, (size_t)column * S),
                           pages->rows.start_state, start, count, S * device->ops->real_bytes);
}

void pages_gather(const struct pages *pages, struct device *device, struct train_batch *batch,
                  int column, const struct window *windows, int count) {
  check_batch(pages, batch, column, count);
  struct entries entries = entries_at(batch->gather.host, column, count);
  for (int k = 0; k < count; k++) enter_window(pages, batch, column + k, &windows[k], &entries, k);
  struct entries read = entries_at(batch->gather.memory, column, count);
  if (read.unroll != entries.unroll)
    device->ops->upload_bytes(device, read.unroll, entries.unroll,
                              (size_t)count * TRAIN_BATCH_ENTRY);
  struct device_steps steps = train_batch_steps(batch);
  device->ops->gather_steps(device, &steps, batch->N, column, &pages->rows.pool, read.unroll, count,
                            batch->T + 1, pages->config.shape.footprint);
  if (batch->state) gather_states(pages, device, batch->state, column, read.start, count);
  if (batch->next_state)
    gather_states(pages, device, batch->next_state, column, read.next_start, count);
}

/* ---- windows of a replay */

int pages_num_starts(const struct pages *pages) {
  return pages->config.num_pages * starts_per_page(pages);
}

/* Whether the pages of a window's span besides the first one are there. */
static bool is_whole(const struct pages *pages, int32_t start) {
  const struct page *page = &pages->page[page_of(pages, start)];
  for (int i = pages_behind(pages, start); i > 0; i--) {
    if (!leads_to(pages, &page->next)) return false;
    page = &pages->page[page->next.page];
  }
  return true;
}

bool pages_find(const struct pages *pages, int32_t start, struct window *window) {
  const struct page *page = &pages->page[page_of(pages, start)];
  *window = (struct window){.slot = page->slot,
                            .life = page->life,
                            .first_step = (uint64_t)first_step_of(pages, start),
                            .start = start,
                            .generation = page->generation};
  return page->generation && is_whole(pages, start);
}

bool pages_has(const struct pages *pages, const struct window *window) {
  const struct page *page = &pages->page[page_of(pages, window->start)];
  return page->generation == window->generation && is_whole(pages, window->start);
}

static void add_to_page(struct pages *pages, int at, int pins) {
  struct page *page = &pages->page[at];
  CHECK(page->pins + pins >= 0, "page %d is not pinned: a window was unpinned twice", at);
  page->pins += pins;
}

/* Adds to the pins of all pages that the window needs. */
static void add_pins(struct pages *pages, const struct window *window, int pins) {
  CHECK(pages_has(pages, window), "the window at start %d is gone", window->start);
  int at = page_of(pages, window->start);
  add_to_page(pages, at, pins);
  for (int i = pages_behind(pages, window->start); i > 0; i--) {
    at = pages->page[at].next.page;
    add_to_page(pages, at, pins);
  }
}

void pages_pin(struct pages *pages, const struct window *window) {
  add_pins(pages, window, 1);
}

void pages_unpin(struct pages *pages, const struct window *window) {
  add_pins(pages, window, -1);
}
