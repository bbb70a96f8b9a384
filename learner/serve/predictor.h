/* A run's policy for rows of a program's own: inference without leases, batcher and pages. The
 * caller begins a batch, writes its rows, enters each, and has the actions when predictor_choose
 * returns; what a slot remembers goes on from batch to batch, as in a run.
 *
 * Upstream: deploy/serve/served.h, deploy/inspect/watch/chooser.c, deploy/python/policy.c.
 * Downstream: acting.h.
 * Thread: one at a time. Invariant: two rows of a batch are never of the same slot. */
#ifndef ACORN_LEARNER_SERVE_PREDICTOR_H
#define ACORN_LEARNER_SERVE_PREDICTOR_H

#include "common/wire/wire.h"
#include "learner/serve/acting.h"

struct predictor {
  struct acting acting;
  struct acting_batch batch;
  struct row_batch rows; /* on the host: what callers write, see predictor_tensor */
  struct memory *memory;
  const struct space *space;
  struct wire_layout layout; /* of a row */
  /* On the host, of the last batch: */
  float *head;   /* (max_rows, stride) */
  float *values; /* (max_rows, A); NULL unless the head gives values of actions */
};

/* acting: as for acting_init, but for inputs, which are the network's, and memory, which has so
 * many slots and is the predictor's. Everything is borrowed. acting_set_params, of `self->acting`,
 * comes before the first batch. */
void predictor_init(struct predictor *self, const struct acting *acting, const struct space *space,
                    int num_slots);
void predictor_deinit(struct predictor *self);

void predictor_begin(struct predictor *self, int num_rows);

/* Where a tensor of a row's observation is to be written. */
static inline void *predictor_tensor(const struct predictor *self, int row, int tensor) {
  return self->rows.observation + (size_t)row * self->layout.row_stride +
         self->layout.tensor[tensor].row_offset;
}

/* The row is of this slot; -1: it has no past but the reward, and leaves none. flags: enum
 * step_flag; a recurrent network's row without a slot is STEP_FIRST. reward: of the step before; 0
 * if STEP_FIRST. greedy: its action is not drawn. */
void predictor_enter(struct predictor *self, int row, int slot, uint8_t flags, float reward,
                     bool greedy);

/* Once all rows have entered: chooses their actions, and lets their slots move on. */
void predictor_choose(struct predictor *self);

/* The action of a row as the environment gets it: space_action_bytes of them. acting_action: as it
 * was chosen. */
void predictor_send(const struct predictor *self, void *sent, int row);

#endif
