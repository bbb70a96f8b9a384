/* What is known of pages, for the files that are about them: pages.c, which works with it, and
 * pages_file.c, which saves it. pages.h has what all others see. Thread: as there. */
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
  int offset;           /* in its page, of the life's first step */
  int64_t first_window; /* the step that begins the life's first window */
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
  uint64_t generation; /* pages begun so far */
  bool frozen;
  pthread_cond_t thawed;
};

/* All pages are free, in the order of their numbers, and none was ever begun. */
void pages_empty(struct pages *pages);

#endif
