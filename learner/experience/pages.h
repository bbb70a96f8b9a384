/* Where steps live: pages of `page_steps` consecutive steps of one slot, from one pool. A step
 * holds its observation once.
 *
 * A slot is one environment id; a life is one lease of it. Appending a step gives the row it lives
 * in; the caller writes the row. A slot's pages form a chain. Pages begin at window starts, so
 * page_steps is the stride between window starts (V-trace: T), and a window of T+1 steps is one
 * page and the first step of the next.
 * The first page of a life begins `phase(slot)` steps after
 * the life does, staggered over the slots so that windows complete evenly; the steps before it need
 * no row (nothing can train on them).
 *
 * Where frames are stacked a step shows some of the steps before it: the window's *footprint*. Then
 * every step has a row (those before the phase in the end of a page of their own), and a page stays
 * until the window after it is released. No frame is stored twice.
 *
 * A page is *held* while it is being filled or belongs to a window that has closed and was not yet
 * released, *free* from then on. Free pages are reused oldest first (by the time they were begun),
 * over all slots: so capacity does not depend on how many slots there are. A slot whose actor has
 * gone keeps what it held until its next life: pages_needed has room for that.
 * Invariant: a held page is never reused; a window that pages_append closed can be
 * gathered until it is released or its life ends, in any order; no window crosses two lives.
 * Upstream: serve/inference.c (thread: inference). Downstream: fifo.c (gathers).
 * Source of the row layout: design 5. */
#ifndef ACORN_LEARNER_EXPERIENCE_PAGES_H
#define ACORN_LEARNER_EXPERIENCE_PAGES_H

#include <stdbool.h>

#include "learner/experience/batch.h"

struct pages_config {
  int num_slots;
  int num_pages;           /* >= pages_needed(num_slots, footprint) */
  int page_steps;          /* T */
  struct step_shape shape; /* footprint: at most page_steps */
  bool stagger;            /* false: every phase is 0 (deterministic tests) */
};

/* Where a slot's next step goes while its page has room. */
struct pages_cursor {
  int64_t next_row; /* of the pool */
  int left;         /* rows left in the page */
};

/* A step but for its observation. Together, because steps are filed for one slot after the other,
 * each in a page of its own: an array for each member would cost a cache line for each. */
struct pages_step {
  int64_t version; /* of the parameters that chose the action */
  float reward;
  uint8_t flags;
  uint32_t word[]; /* the action's bytes, then the statistics, floats */
};

/* Of a record; the next one's version is aligned too. */
static inline size_t pages_step_bytes(size_t action_bytes, size_t statistics_bytes) {
  return (sizeof(struct pages_step) + action_bytes + statistics_bytes + 7) / 8 * 8;
}

/* Arrays over all rows of the pool; row = page * page_steps + offset. Plain pointers, written by
 * the owner thread only. */
struct pages_rows {
  uint8_t *observation;           /* (rows, row_stride) */
  uint8_t *step;                  /* (rows, step_bytes): struct pages_step, see pages_step_at */
  real *start_state;              /* (pages, S): recurrent state before the page's first step */
  uint8_t *start_previous_action; /* (pages, action_bytes) */
  int32_t *start_depth;           /* (pages) steps before it in its episode, at most footprint */
  struct pages_cursor *cursor;    /* (slots): pages_try_append's */
  size_t step_bytes, action_bytes, statistics_bytes;
};

struct pages;

/* What pages_append says of a step. */
struct pages_place {
  int64_t row;        /* where the step lives; -1: it is not kept (before the slot's phase) */
  int page;           /* of that row; -1 if none */
  bool starts_window; /* first row of a page: the caller writes start_state,
                         start_previous_action and start_depth too */
  bool closes_window; /* with this step, once its row is written, `window` is complete: gather it,
                         then release */
  struct window window;
};

/* Pages that num_slots slots can hold at the same time, so that pages_append always finds one:
 * if each window is released before its slot closes the next. */
int pages_needed(int num_slots, int footprint);

struct pages *pages_create(struct device *device, const struct pages_config *config);
void pages_destroy(struct pages *pages);
const struct pages_rows *pages_rows(const struct pages *pages);

/* Begins life `life` of a slot: what it held is freed, windows of the old life are gone, gathered
 * or not (to gather or release one afterwards is a CHECK; the FIFO gathers each as soon as it is
 * closed). */
void pages_begin_life(struct pages *pages, int slot, uint32_t life);

/* Room for the slot's next step. Never allocates memory. */
struct pages_place pages_append(struct pages *pages, int slot);

/* The row of the slot's next step if its page has room, which is nearly always; otherwise -1, and
 * pages_append says more. */
static inline int64_t pages_try_append(const struct pages_rows *rows, int slot) {
  struct pages_cursor *cursor = &rows->cursor[slot];
  if (cursor->left == 0) return -1;
  cursor->left--;
  return cursor->next_row++;
}

/* The record of a row. */
static inline struct pages_step *pages_step_at(const struct pages_rows *rows, int64_t row) {
  return (struct pages_step *)(void *)(rows->step + (size_t)row * rows->step_bytes);
}

/* Writes the record of a row. Shapes: action (action_bytes), statistics (statistics). */
static inline void pages_write_step(const struct pages_rows *rows, int64_t row, int64_t version,
                                    float reward, uint8_t flags, const void *action,
                                    const float *statistics) {
  struct pages_step *step = pages_step_at(rows, row);
  step->version = version;
  step->reward = reward;
  step->flags = flags;
  step_shape_copy(step->word, action, rows->action_bytes);
  step_shape_copy((uint8_t *)step->word + rows->action_bytes, statistics, rows->statistics_bytes);
}

/* The observation of the slot's k-th last step, 1 <= k <= footprint, of those that its life has. */
const uint8_t *pages_observation_before(const struct pages *pages, int slot, int k);

/* Copies a closed window into column `column` of the batch, previous actions derived
 * (start_previous_action, then the actions themselves; none on first rows), and releases the window:
 * its full page becomes free. */
void pages_gather(struct pages *pages, struct train_batch *batch, int column,
                  const struct window *window);
/* Releases it without a copy. */
void pages_release(struct pages *pages, const struct window *window);

/* Bytes of observations allocated, and the number of steps that can be reached through it: for the
 * memory figure. */
size_t pages_observation_bytes(const struct pages *pages);
int64_t pages_capacity_steps(const struct pages *pages);
/* Pages now held and free. */
int pages_held(const struct pages *pages);
int pages_free(const struct pages *pages);

#endif
