/* Where steps live: pages of `page_steps` consecutive steps of one slot, from one pool. A step
 * holds its observation once.
 *
 * A slot is one environment id; a life is one lease of it. Appending a step gives the row it lives
 * in; the caller writes the row, on the device (pages_write), and its stamp. A slot's pages form a
 * chain. Windows of T+1 steps begin every `stride` steps; a page holds a whole number of strides,
 * so that windows begin at the same offsets of each page. What a window needs besides its steps
 * (recurrent state, previous action) is kept at its *start*; starts are numbered page by page.
 * Where the stride is T, as without a replay, a window shares one step with the next and a page is
 * its first T steps; with a smaller one windows overlap. A life may begin in the middle of its
 * first page (enum pages_phase).
 *
 * Where frames are stacked a step shows some of the steps before it: the window's *footprint*.
 * Pages begin as many steps before a window does, so that a window's frames are in its own pages.
 * No frame is stored twice.
 *
 * A page is *held* while it is being filled or a window needs it that has not been released, *free*
 * from then on. Free pages are reused oldest first (by the time they were begun), over all slots:
 * so capacity does not depend on how many slots there are, and what a dead slot left ages out. A
 * slot whose actor has gone keeps the page that it was filling until its next life: pages_needed
 * has room for that. Until its page is reused a free window is whole: a replay samples it
 * (pages_pin) as long as that lasts. A reused page has a new generation; a pinned one is not
 * reused.
 * Invariant: a held or pinned page is never reused; no window crosses two lives.
 * Upstream: serve/inference.h (thread: inference). Downstream: source.h (fifo.c, replay.c; thread
 * of gathering from a replay: the trainer's).
 * docs/design/learner-experience.md has the reasons for the layout. */
#ifndef ACORN_LEARNER_EXPERIENCE_PAGES_H
#define ACORN_LEARNER_EXPERIENCE_PAGES_H

#include <pthread.h>
#include <stdbool.h>

#include "learner/experience/batch.h"
#include "learner/experience/wait_time.h"

/* When the first window of a life begins. */
enum pages_phase {
  PAGES_AT_ONCE,
  PAGES_STAGGERED, /* so that windows of all slots complete evenly */
  PAGES_TOGETHER   /* so that windows of all slots complete together */
};

struct pages_config {
  int num_slots;
  int num_pages;           /* at least pages_needed; 0: that */
  int page_steps;          /* a multiple of stride */
  struct step_shape shape; /* footprint: below page_steps */
  enum pages_phase phase;
  bool spills;      /* observations lie in memory of alloc_spilled */
  int spare_rows;   /* of observations behind those of the pages, for the caller */
  int stride;       /* steps between the starts of windows; 0: page_steps */
  int window_steps; /* T, at least stride; 0: page_steps */
  bool replays;     /* windows are sampled after they were released, by another thread; rewards and
                       statistics are kept on the host too */
};

/* Where a slot's next step goes until something begins or ends there. */
struct pages_cursor {
  int64_t next_row; /* of the pool */
  int left;         /* rows until then */
};

/* Arrays over the pool; row = page * page_steps + offset, start = row / stride for the row of the
 * window's oldest frame. Written by the owner thread only. */
struct pages_rows {
  /* on the device */
  struct device_pool pool; /* (rows), then config.spare_rows observations that are the caller's */
  real *start_state;       /* (starts, S): recurrent state before the window's first step */
  void *start_action;      /* (starts, action_bytes): of the step before the window's first */
  /* on the host */
  uint64_t *stamp;      /* (rows) of each step, see step_stamp */
  float *trail;         /* (rows, 1 + statistics): reward and statistics; NULL unless it
                                  replays */
  int32_t *start_depth; /* (starts) steps before its first in its episode, at most footprint */
  struct pages_cursor *cursor; /* (slots): pages_try_append's */
};

struct pages;

/* What pages_append says of a step. */
struct pages_place {
  int64_t row;        /* where the step lives */
  int32_t start;      /* of the window that it begins: the caller writes start_depth, and what
                         pages_write_starts takes; -1: none */
  bool closes_window; /* with this step, once its row is written, `window` is complete */
  struct window window;
};

/* Pages that the config's slots can hold at the same time, so that pages_append always finds one:
 * if each window is released before its slot closes the next. */
int pages_needed(const struct pages_config *config);
/* Pages that a window has steps in, at most; a gather takes DEVICE_MAX_SPANS. */
int pages_most_spans(const struct pages_config *config);

/* Errors: CHECK for what the options should have refused. */
struct pages *pages_create(struct device *device, const struct pages_config *config);
void pages_destroy(struct pages *pages);
const struct pages_rows *pages_rows(const struct pages *pages);
const struct pages_config *pages_config(const struct pages *pages);

/* Begins life `life` of a slot: its open windows are gone, and it holds nothing more. */
void pages_begin_life(struct pages *pages, int slot, uint32_t life);

/* Room for the slot's next step. Never allocates memory. */
struct pages_place pages_append(struct pages *pages, int slot);

/* The row of the slot's next step if nothing begins or ends there, which is nearly always so;
 * otherwise -1, and pages_append says more. */
static inline int64_t pages_try_append(const struct pages_rows *rows, int slot) {
  struct pages_cursor *cursor = &rows->cursor[slot];
  if (cursor->left == 0) return -1;
  cursor->left--;
  return cursor->next_row++;
}

/* Writes a batch's steps: step b to row[b], which pages_append said; a negative row is skipped. */
void pages_write(struct pages *pages, const int32_t *row, const struct device_steps *steps, int B);
/* What the windows need that begin with some of these steps: step b begins start[b]; a negative
 * start is skipped. Shapes: previous_action (B, action_bytes), state (B, S), NULL when S = 0. */
void pages_write_starts(struct pages *pages, const int32_t *start, const void *previous_action,
                        const real *state, int B);

/* The row of the slot's k-th last step, 1 <= k <= footprint, of those that its life has. */
int64_t pages_row_before(const struct pages *pages, int slot, int k);

/* Row of step t (0..T) of a window that is not released, or pinned. */
int64_t pages_row(const struct pages *pages, const struct window *window, int t);

/* Where the steps of such a window are, and the frames before it. */
struct device_unroll pages_unroll(const struct pages *pages, const struct window *window);

/* Copies windows (count) that are not released, or pinned, into the batch's columns from `column`
 * on, previous actions derived (start_action, then the actions themselves; none on first rows).
 * device: the calling thread's. What was gathered into these columns before must be done. Steps
 * that are written later may have its rows once it is released or unpinned: device operations that
 * read them must be done by then, or given to the device that writes. */
void pages_gather(const struct pages *pages, struct device *device, struct train_batch *batch,
                  int column, const struct window *windows, int count);
/* The window needs its pages no longer. Once, before its life ends. */
void pages_release(struct pages *pages, const struct window *window);

/* ---- of pages that replay. What follows is called under the lock, which guards what the functions
 * above do to pages too: they take it themselves. */
pthread_mutex_t *pages_lock(struct pages *pages);
/* Windows that can start in the pool. */
int pages_num_starts(const struct pages *pages);
/* The window of a start, where one has begun since its page was, if all pages that it needs are
 * still there. Whether it has closed the caller knows. */
bool pages_find(const struct pages *pages, int32_t start, struct window *window);
/* Whether its pages are still there. */
bool pages_has(const struct pages *pages, const struct window *window);
/* Keeps the pages of a window that is there from being reused, until it is unpinned as often. */
void pages_pin(struct pages *pages, const struct window *window);
void pages_unpin(struct pages *pages, const struct window *window);
/* Pages begun so far, each time counted: the generation of the newest. */
uint64_t pages_begun(const struct pages *pages);
/* Calls `gone` when a page is reused: `count` starts from `first` on begin windows that needed it.
 */
void pages_on_reuse(struct pages *pages, void (*gone)(void *context, int32_t first, int count),
                    void *context);

/* An image, of which a file is written: what the windows of this moment are made of stays as it is,
 * since a page that has been begun by now is not reused before it is written, or the image has
 * ended; pages_append waits instead. pages_wrote: all pages up to that generation are written;
 * returns false if the image has ended. */
void pages_begin_image(struct pages *pages);
bool pages_wrote(struct pages *pages, uint64_t generation);
void pages_end_image(struct pages *pages);
/* How long pages_append has waited for that. */
struct wait_time pages_image_wait(const struct pages *pages);

/* Rows of all pages together. */
int64_t pages_capacity_steps(const struct pages *pages);

#endif
