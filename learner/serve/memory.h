/* What the learner remembers of each environment between two steps: its life, the number of steps
 * in it, the previous action, the recurrent state, and which frames came before. One slot per
 * environment id. Rows of a batch enter with what their slots remember, and leave with what their
 * step was.
 * Upstream: serve/inference.c, deploy/watch/chooser.c. Downstream: experience/{pages,frames}.h.
 * Thread: one, inference. */
#ifndef ACORN_LEARNER_SERVE_MEMORY_H
#define ACORN_LEARNER_SERVE_MEMORY_H

#include "learner/device/device.h"
#include "learner/experience/frames.h"
#include "learner/experience/pages.h"

struct memory_config {
  int num_slots;
  struct step_shape shape;
  const struct pages *pages; /* of the first slots, borrowed; NULL: there are none */
  int num_paged;             /* slots whose earlier frames are in pages */
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
  struct frames *frames;    /* of slots without pages; NULL when footprint = 0 */
};

/* What the rows of a batch remember, as networks read it. Device memory. */
struct memory_rows {
  uint8_t *previous_action;   /* (rows, action_bytes) */
  real *state_in, *state_out; /* (rows, S): before the step, and after it; NULL when S = 0 */
  const uint8_t **frame;      /* (rows, footprint + 1), newest first; NULL when footprint = 0 */
};

struct memory *memory_create(struct device *device, const struct memory_config *config);
void memory_destroy(struct memory *memory);

struct memory_rows memory_rows_create(const struct memory *memory, int rows);
void memory_rows_destroy(const struct memory *memory, struct memory_rows *rows);

enum memory_life { MEMORY_SAME_LIFE, MEMORY_NEW_LIFE, MEMORY_OLD_LIFE };

/* Life check of a row. A new life resets the slot: no steps, no previous action (its recurrent
 * state is dropped by the `first` flag of the row). A row of an old life, whose actor has been
 * replaced meanwhile, is not to be used. */
enum memory_life memory_enter_life(struct memory *memory, int slot, uint32_t life);

/* A row of the batch that no slot has: it has no past. observation: the row's own. */
void memory_clear_row(const struct memory *memory, const struct memory_rows *rows, int row,
                      const uint8_t *observation);
/* A row of the slot: its past as of this step. A first row begins an episode, so it has none. */
void memory_enter_row(struct memory *memory, const struct memory_rows *rows, int row, int slot,
                      uint8_t flags, const uint8_t *observation);
/* The slot's memory moves on by the step of this row, after the step was filed. action: the one
 * that was chosen. */
void memory_leave_row(struct memory *memory, const struct memory_rows *rows, int row, int slot,
                      const void *action, const uint8_t *observation);

#endif
