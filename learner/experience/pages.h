/* Where steps live: pages of `page_steps` consecutive steps of one slot, from one pool. A step
 * holds its observation once.
 *
 * A slot is one environment id; a life is one lease of it. Appending a step gives the row it lives
 * in; the caller writes the row, on the device (pages_write), and its stamp. A slot's pages form a
 * chain. Pages begin at window starts, so page_steps is the stride between window starts (V-trace:
 * T), and a window of T+1 steps is one page and the first step of the next.
 * The first page of a life may begin some steps after the life does (enum pages_phase); the steps
 * before it need no row (nothing can train on them).
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
 * docs/design.md, "Experience", has the reasons for the layout. */
#ifndef ACORN_LEARNER_EXPERIENCE_PAGES_H
#define ACORN_LEARNER_EXPERIENCE_PAGES_H

#include <stdbool.h>

#include "learner/experience/batch.h"

/* When the first page of a life begins. */
enum pages_phase {
  PAGES_AT_ONCE,
  PAGES_STAGGERED, /* so that windows of all slots complete evenly */
  PAGES_TOGETHER   /* so that windows of all slots complete together */
};

struct pages_config {
  int num_slots;
  int num_pages;           /* >= pages_needed(num_slots, footprint) */
  int page_steps;          /* T */
  struct step_shape shape; /* footprint: at most page_steps */
  enum pages_phase phase;
  int spare_rows; /* of observations behind those of the pages, for the caller */
};

/* Where a slot's next step goes while its page has room. */
struct pages_cursor {
  int64_t next_row; /* of the pool */
  int left;         /* rows left in the page */
};

/* Arrays over the pool; row = page * page_steps + offset. Written by the owner thread only. */
struct pages_rows {
  /* on the device */
  struct device_pool pool; /* (rows), then config.spare_rows observations that are the caller's */
  real *start_state;       /* (pages, S): recurrent state before the page's first step */
  void *start_action;      /* (pages, action_bytes): of the step before the page's first */
  /* on the host */
  uint64_t *stamp;      /* (rows) of each step, see step_stamp */
  int32_t *start_depth; /* (pages) steps before its first in its episode, at most footprint */
  struct pages_cursor *cursor; /* (slots): pages_try_append's */
};

struct pages;

/* What pages_append says of a step. */
struct pages_place {
  int64_t row;        /* where the step lives; -1: it is not kept (before the slot's phase) */
  int page;           /* of that row; -1 if none */
  bool starts_window; /* first row of a page: the caller writes start_depth, and what
                         pages_write_starts takes */
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

/* Writes a batch's steps: step b to row[b], which pages_append said; a negative row is skipped. */
void pages_write(struct pages *pages, const int32_t *row, const struct device_steps *steps, int B);
/* What the windows need that begin with some of these steps: step b begins page[b]; a negative page
 * is skipped. Shapes: previous_action (B, action_bytes), state (B, S), NULL when S = 0. */
void pages_write_starts(struct pages *pages, const int32_t *page, const void *previous_action,
                        const real *state, int B);

/* The row of the slot's k-th last step, 1 <= k <= footprint, of those that its life has. */
int64_t pages_row_before(const struct pages *pages, int slot, int k);

/* Version of the parameters that chose the action of step t (0..T-1) of a closed window. */
int64_t pages_version(struct pages *pages, const struct window *window, int t);

/* Copies a closed window into column `column` of the batch, previous actions derived (start_action,
 * then the actions themselves; none on first rows), and releases the window: its full page becomes
 * free. Steps that are written later may have its rows: the device does one after the other. */
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
