/* The sizes of one step, which pages, training batches and inference share. Plain data, set once
 * when a run is made. Upstream: learner/run.h, experience/batch.h. Thread: any. */
#ifndef ACORN_LEARNER_EXPERIENCE_STEP_SHAPE_H
#define ACORN_LEARNER_EXPERIENCE_STEP_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct step_shape {
  size_t row_stride; /* bytes of an observation's row */
  int action_bytes;  /* space_action_bytes: a multiple of 4 */
  bool box;          /* an action is float32[]; false: one int32 */
  int statistics;    /* floats that the policy keeps with an action */
  int state_size;    /* S: reals of recurrent state */
  int footprint;     /* steps before a window that belong to it: stacked frames but the newest */
};

/* The previous action where there is none, as on a first row: -1 for int32, zeros for float32[].
 * Networks see zeros either way. Shapes: (action_bytes). */
const void *step_shape_no_action(const struct step_shape *shape);

/* Copies an action or its statistics: mostly one word, for which this is one move, not a call. */
static inline void step_shape_copy(void *to, const void *from, size_t bytes) {
  if (bytes == 4)
    memcpy(to, from, 4);
  else
    memcpy(to, from, bytes);
}

#endif
