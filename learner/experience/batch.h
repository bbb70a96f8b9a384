/* A training batch of N windows of T+1 steps, time-major: what experience hands to training.
 * All arrays are device memory, allocated once. Owner: the FIFO (fifo.h), lent to the trainer from
 * take to release. */
#ifndef ACORN_LEARNER_EXPERIENCE_BATCH_H
#define ACORN_LEARNER_EXPERIENCE_BATCH_H

#include "learner/device/device.h"
#include "learner/experience/step_shape.h"

/* A window: its slot, the slot's life, and the absolute number of its first step in that life. */
struct window {
  int slot;
  uint32_t life;
  uint64_t first_step;
};

struct train_batch {
  int T, N;
  struct step_shape shape;
  uint8_t *observation;  /* (T+1, N, row_stride) */
  void *action;          /* (T+1, N, action_bytes); the last row's is not used */
  void *previous_action; /* (T+1, N, action_bytes); step_shape_no_action on first rows */
  float *statistics;     /* (T+1, N, statistics) of the policy that acted: log mu(a|x) */
  float *reward;         /* (T+1, N) of the step into x_t */
  uint8_t *flags;        /* (T+1, N) enum step_flag */
  real *state;           /* (N, S) before the first step of each window */
  int64_t *version;      /* (T+1, N) of the parameters that chose the action */
  uint8_t *older;        /* (footprint, N, row_stride): [k] is k + 1 steps before the first */
  int32_t *depth;        /* (N) how many of these belong to the first step's episode */
  struct window *window; /* (N) */
  int num_windows;       /* filled so far; N when it is handed to the trainer */
};

struct train_batch *train_batch_create(struct device *device, int T, int N,
                                       const struct step_shape *shape);
void train_batch_destroy(struct device *device, struct train_batch *batch);

#endif
