/* A training batch of N windows of T+1 steps, time-major: what experience hands to training.
 * What networks and losses read is device memory; what the trainer decides by is on the host too.
 * All is allocated once. Owner: the source (source.h), lent to the trainer from take to release. */
#ifndef ACORN_LEARNER_EXPERIENCE_BATCH_H
#define ACORN_LEARNER_EXPERIENCE_BATCH_H

#include "learner/device/device.h"
#include "learner/device/shared.h"
#include "learner/experience/step_shape.h"

/* A window: its slot, the slot's life, and the absolute number of its first step in that life; and
 * where that step is: the number of the window's start (pages.h), and the generation of its page.
 */
struct window {
  int slot;
  uint32_t life;
  uint64_t first_step;
  int32_t start;
  uint64_t generation;
};

struct train_batch {
  int T, N;
  struct step_shape shape;

  /* on the device */
  uint8_t *history;      /* (footprint + T+1, N, row_stride), with the steps before each window */
  uint8_t *observation;  /* (T+1, N, row_stride): the last T+1 of those */
  void *action;          /* (T+1, N, action_bytes); the last row's is not used */
  void *previous_action; /* (T+1, N, action_bytes); step_shape_no_action on first rows */
  float *statistics;     /* (T+1, N, statistics) of the policy that acted, see policy.h */
  float *reward;         /* (T+1, N) of the step into x_t */
  uint8_t *flags;        /* (T+1, N) enum step_flag */
  real *state;           /* (N, S) before the first step of each window */
  real *next_state; /* (N, S) before step next_step, likewise as acting left it; NULL: not kept */
  int next_step;    /* with which the slot's next window begins */

  /* on the host */
  uint64_t *stamp;       /* (N, T+1): flags and versions once more, window after window */
  int32_t *depth;        /* (N) steps before the first that belong to its episode, at most
                            footprint: as many are in history */
  struct window *window; /* (N) */

  /* on both: what each gather reads, a block of `count` entries at `column` of N: unrolls, then the
   * starts whose states go to state and to next_state */
  struct device_shared gather;

  /* on both, (N) floats, of a source that replays */
  struct device_shared weight;   /* of each window's loss */
  struct device_shared priority; /* that the update gives each window */
  int num_windows;               /* filled so far; N when it is handed to the trainer */
  bool blank;                    /* no step of it counts */
};

struct train_batch *train_batch_create(struct device *device, int T, int N,
                                       const struct step_shape *shape);
/* It keeps next_state, too. Shapes: S > 0; 1 <= next_step <= T. */
void train_batch_keep_next(struct device *device, struct train_batch *batch, int next_step);
/* It becomes blank, in the place of one that a learner among several does not have. */
void train_batch_make_blank(struct device *device, struct train_batch *batch);
void train_batch_destroy(struct device *device, struct train_batch *batch);

/* Bytes of an entry of `gather`. */
enum { TRAIN_BATCH_ENTRY = sizeof(struct device_unroll) + 2 * sizeof(int32_t) };

/* Its steps, as operations take them. */
struct device_steps train_batch_steps(const struct train_batch *batch);

/* inputs: of all steps of the batch. Those from step t on. */
struct device_inputs train_batch_inputs_from(const struct train_batch *batch,
                                             const struct device_inputs *inputs, int t);

/* The stamp of step t of column n. */
static inline uint64_t *train_batch_stamp(const struct train_batch *batch, int t, int n) {
  return &batch->stamp[(size_t)n * (size_t)(batch->T + 1) + (size_t)t];
}

#endif
