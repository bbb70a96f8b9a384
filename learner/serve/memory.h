/* State of each environment between two steps: life, previous action, recurrent state, frames.
 *
 * One slot per environment id. The rows of a batch read the state of their slots, and write the new
 * one.
 *
 * States and frames are on the device, where a batch reads and writes all of its rows by one
 * operation each (memory_rows_begin, memory_rows_end); everything else is on the host.
 * Upstream: serve/acting.h. Downstream: experience/pages.h. Thread: one, inference or that of a
 * predictor. */
#ifndef ACORN_LEARNER_SERVE_MEMORY_H
#define ACORN_LEARNER_SERVE_MEMORY_H

#include "learner/device/device.h"
#include "learner/device/shared.h"
#include "learner/experience/pages.h"

struct memory_config {
  int num_slots;
  int rank; /* of this learner, for random numbers */
  struct step_shape shape;
  int draws;           /* random numbers of each row */
  struct pages *pages; /* of the first slots, borrowed; NULL: there are none. Their spare rows are
                          the memory's: memory_spare_rows */
  int num_paged;       /* slots whose earlier frames are in pages */
};

/* Plain arrays, for inference to read; written by the functions below. */
struct memory {
  struct memory_config config;
  struct device *device;
  uint32_t *life;           /* (num_slots) 0: none yet */
  uint32_t *steps;          /* (num_slots) rows of this life so far */
  int32_t *depth;           /* (num_slots) steps before the next one in its episode, at most
                               footprint */
  uint8_t *previous_action; /* (num_slots, action_bytes) */
  real *state;              /* (num_slots, S), device memory; NULL when S = 0 */

  /* The frames of slots without pages are a ring for each, of footprint rows of `history`, which
   * is device memory: the pages' observations, or an array of the memory's own. */
  uint8_t *history, *own_history; /* NULL when footprint = 0 */
  int64_t first_ring_row;
  int32_t *ring; /* (slots without pages) where the next one goes */
};

/* The rows of a batch. What the host writes of them goes to the device together. */
struct memory_rows {
  struct device_shared block; /* the arrays that follow: (rows) unless noted */
  size_t used;                /* bytes of the block */
  int32_t *slot;              /* that the row is of; -1: none (dead, absent, of an old life, or a
                                 hole): it changes nothing that is remembered */
  uint8_t *previous_action;   /* (rows, action_bytes) */
  uint32_t *environment, *life, *step; /* whose random number it gets, */
  uint8_t *greedy;                     /* or that it gets none */
  float *epsilon;                      /* of its action; the caller's to write, 0 until then */
  int32_t *frame; /* (rows, footprint) rows of history; NULL when footprint = 0, as the next */
  int32_t *ring;  /* row of history that the observation goes to; -1: none */
  /* The caller's, to go along with them: */
  int32_t *place; /* row of the pages that the step goes to, or -1 */
  int32_t *start; /* of the window that it begins, or -1 */
  float *reward;  /* and what the environment sent with it */
  uint8_t *flags;

  /* on the device */
  float *uniform;             /* (rows, draws) */
  real *state_in, *state_out; /* (rows, S): before the step, and after it; NULL when S = 0 */
};

struct memory *memory_create(struct device *device, const struct memory_config *config);
void memory_destroy(struct memory *memory);

/* Rows of observations that so many slots without pages need behind those of the pages. */
int memory_spare_rows(int num_slots, const struct step_shape *shape);

struct memory_rows memory_rows_create(const struct memory *memory, int rows);
void memory_rows_destroy(const struct memory *memory, struct memory_rows *rows);
/* Moves the arrays together for `count` rows, at most as many as it was created with, so that an
 * upload takes no more than these. What they held is lost. */
void memory_rows_lay_out(const struct memory *memory, struct memory_rows *rows, int count);

enum memory_life { MEMORY_SAME_LIFE, MEMORY_NEW_LIFE, MEMORY_OLD_LIFE };

/* Life check of a row. A new life resets the slot: no steps, no previous action (its recurrent
 * state is dropped by the `first` flag of the row). A row of an old life, whose actor has been
 * replaced meanwhile, is not to be used. */
enum memory_life memory_enter_life(struct memory *memory, int slot, uint32_t life);

/* A row of the batch that no slot has: it has no past. */
void memory_clear_row(const struct memory *memory, const struct memory_rows *rows, int row);
/* A row of the slot: its past as of this step. A first row begins an episode, so it has none.
 * greedy: its action is not drawn. */
void memory_enter_row(struct memory *memory, const struct memory_rows *rows, int row, int slot,
                      uint8_t flags, bool greedy);

/* Once B rows have entered: gives the device what they remember. Sets previous_action, history and
 * frame of the inputs, and computes uniform and state_in. Until it has been waited for the
 * host's arrays stay as they are. */
void memory_rows_begin(const struct memory *memory, const struct memory_rows *rows,
                       struct device_inputs *inputs, uint64_t seed, int B);
/* Once state_out is computed: the device remembers it, and the observations (B, row_stride). */
void memory_rows_end(const struct memory *memory, const struct memory_rows *rows,
                     const uint8_t *observation, int B);

/* The slot's memory moves on by the step, after it was filed. action: the one that was chosen. */
void memory_leave(struct memory *memory, int slot, const void *action);

/* What a slot without pages remembers of an episode as bytes, for a caller that keeps it elsewhere;
 * zeros: before its first row, which alone has STEP_FIRST. The previous action is last,
 * a life is not in them. On a unified device; any bytes may be loaded. */
size_t memory_slot_bytes(const struct memory *memory);
void memory_save_slot(const struct memory *memory, uint8_t *kept, int slot);
void memory_load_slot(struct memory *memory, uint8_t *kept, int slot);

#endif
