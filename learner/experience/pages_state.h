/* Internal state of pages, shared by pages.c, pages_window.c and pages_file.c.
 *
 * pages.c fills pages, pages_window.c reads windows, pages_file.c saves them. pages.h is the public
 * interface. Thread: as there. */
#ifndef ACORN_LEARNER_EXPERIENCE_PAGES_STATE_H
#define ACORN_LEARNER_EXPERIENCE_PAGES_STATE_H

#include "learner/experience/pages.h"

enum { NONE = -1 };

/* The neighbour of a page in its life; a page that was reused since has another generation. */
struct link {
  int page; /* NONE: there is none */
  uint64_t generation;
};

struct page {
  int older,
      newer; /* in the slot's chain while held, in the free list while free; NONE at the ends */
  int holds; /* reasons to hold it; 0: free */
  int pins;  /* windows that need it and are pinned */
  uint64_t generation; /* counts up over the pool as pages are begun; 0: never */
  int64_t
      first_step; /* of its first row, in its life; below 0: rows before the life's first step */
  int slot;
  uint32_t life;
  struct link previous, next;
};

struct slot {
  int newest; /* the page being filled; NONE before the first */
  bool alive;
  uint32_t life;
  int offset;            /* in its page, of the life's first step */
  int64_t first_window;  /* the step that begins the life's first window */
  int64_t opens, closes; /* steps that begin and that end the next windows */
};

struct list {
  int oldest, newest;
};

struct pages {
  struct pages_config config; /* read-only after create, as are the pointers */
  struct device *device;
  struct pages_rows rows;
  void (*gone)(void *context, int32_t first, int count);
  void *context;

  pthread_mutex_t lock; /* guards what follows, if config.replays */
  struct page *page;    /* (num_pages) */
  struct slot *slot;    /* (num_slots) inference's */
  struct list free;
  int num_free;
  uint64_t generation;            /* pages begun so far */
  bool imaged;                    /* there is an image: of the pages up to a generation, */
  uint64_t image_newest, written; /* and those up to another are written */
  pthread_cond_t wrote;
  struct wait_time image_wait; /* inference's, for a page that is not */
};

/* All pages are free, in the order of their numbers, and none was ever begun. */
void pages_empty(struct pages *pages);

/* ---- where the span of a window lies: see DESIGN in pages.c */

/* Steps of a span but the first. */
static inline int span_steps(const struct pages_config *config) {
  return config->shape.footprint + config->window_steps;
}

static inline int starts_per_page(const struct pages *pages) {
  return pages->config.page_steps / pages->config.stride;
}

static inline bool leads_to(const struct pages *pages, const struct link *link) {
  return link->page != NONE && pages->page[link->page].generation == link->generation;
}

/* Offset in its page that the span of a start begins at. */
static inline int offset_of(const struct pages *pages, int32_t start) {
  return start % starts_per_page(pages) * pages->config.stride;
}

static inline int page_of(const struct pages *pages, int32_t start) {
  return start / starts_per_page(pages);
}

/* The first step of a start's window. */
static inline int64_t first_step_of(const struct pages *pages, int32_t start) {
  return pages->page[page_of(pages, start)].first_step + offset_of(pages, start) +
         pages->config.shape.footprint;
}

/* Pages behind its first one that the span of a start reaches into. */
static inline int pages_behind(const struct pages *pages, int32_t start) {
  return (offset_of(pages, start) + span_steps(&pages->config)) / pages->config.page_steps;
}

/* Row of the step that is k before the one at an offset of a page: in it, or in the one before. */
static inline int64_t row_before(const struct pages *pages, int at, int offset, int k) {
  int64_t T = pages->config.page_steps;
  if (k <= offset) return at * T + offset - k;
  return pages->page[at].previous.page * T + T - (k - offset);
}

/* The page that the window's span begins in, which must have its generation. */
int pages_first_page(const struct pages *pages, const struct window *window);

#endif
