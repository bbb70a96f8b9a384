/* The sizes of one step, which pages, training batches and inference share. Plain data, set once
 * when a run is made. Upstream: learner/run/run.h, experience/batch.h. Thread: any. */
#ifndef ACORN_LEARNER_EXPERIENCE_STEP_SHAPE_H
#define ACORN_LEARNER_EXPERIENCE_STEP_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct step_shape {
  size_t row_stride; /* bytes of an observation's row */
  int action_bytes;  /* space_action_bytes: a multiple of 4 */
  bool box;          /* an action is float32[]; false: int32[], one for each choice */
  int statistics;    /* floats that the policy keeps with an action */
  int state_size;    /* S: reals of recurrent state */
  int footprint;     /* steps before a window that belong to it: stacked frames but the newest */
};

/* Each byte of the previous action where there is none, as on a first row: of int32 that is -1, of
 * float32[] zeros. Networks see zeros either way. */
static inline uint8_t step_shape_no_action(const struct step_shape *shape) {
  return shape->box ? 0 : 0xff;
}

/* What the host keeps of a step to decide by: its flags, and the version of the parameters that
 * chose its action, below 2^55. */
static inline uint64_t step_stamp(int64_t version, uint8_t flags) {
  return (uint64_t)version << 8 | flags;
}
static inline uint8_t step_stamp_flags(uint64_t stamp) {
  return (uint8_t)stamp;
}
static inline int64_t step_stamp_version(uint64_t stamp) {
  return (int64_t)stamp >> 8;
}

/* Copies an action or its statistics: mostly one word, for which this is one move, not a call. */
static inline void step_shape_copy(void *to, const void *from, size_t bytes) {
  if (bytes == 4)
    memcpy(to, from, 4);
  else
    memcpy(to, from, bytes);
}

#endif
