/* A step's flags: the one definition, which the wire, experience and kernels share.
 *
 * Row t of an environment is observation x_t, reward r_t of the step into x_t, and these flags.
 *   first:      x_t starts an episode; its reward is 0, or the last of the episode before.
 *   terminated: the episode before ended in a terminal state; x_t starts the next one, so the row
 *               is `first` too.
 *   truncated:  x_t is the final observation of an episode that was cut off; its action is ignored.
 *               The next row is `first`.
 *   absent:     there is no observation and no action.
 * docs/protocol.md has the rules in full. */
#ifndef ACORN_COMMON_BASE_STEP_H
#define ACORN_COMMON_BASE_STEP_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

enum step_flag { STEP_FIRST = 1, STEP_TERMINATED = 2, STEP_TRUNCATED = 4, STEP_ABSENT = 8 };

/* Larger rewards and observations are refused like NaN: their squares and sums would overflow in
 * the update, which ends a run. */
#define STEP_MAX_NUMBER 1e9f

/* Whether x is none that can be learned from: NaN, infinite or too large. */
static inline bool step_is_wild(float x) {
  return !(fabsf(x) <= STEP_MAX_NUMBER);
}

/* The place of the first wild one of `count` floats, aligned or not; `count` if there is none. */
size_t step_first_wild(const void *floats, size_t count);

#endif
