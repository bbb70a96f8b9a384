/* What the learner remembers of each environment between two steps: its life, the number of steps
 * in it, the previous action, the recurrent state. One slot per environment id. Thread: inference.
 * Upstream: serve/inference.c. */
#ifndef ACORN_LEARNER_EXPERIENCE_SLOTS_H
#define ACORN_LEARNER_EXPERIENCE_SLOTS_H

#include <stdbool.h>

#include "learner/device/device.h"

struct slots {
  int num_slots;
  int state_size;           /* S */
  uint32_t *life;           /* (num_slots) 0: none yet */
  uint32_t *steps;          /* (num_slots) rows of this life so far */
  int32_t *previous_action; /* (num_slots) -1: none */
  real *state;              /* (num_slots, S), device memory; NULL when S = 0 */
};

struct slots *slots_create(struct device *device, int num_slots, int state_size);
void slots_destroy(struct device *device, struct slots *slots);

enum slots_life { SLOTS_SAME_LIFE, SLOTS_NEW_LIFE, SLOTS_OLD_LIFE };

/* Life check of a row. A new life resets the slot: no steps, no previous action (its recurrent
 * state is dropped by the `first` flag of the row). A row of an old life, whose actor has been
 * replaced meanwhile, is not to be used. */
static inline enum slots_life slots_enter(struct slots *slots, int slot, uint32_t life) {
  if (slots->life[slot] == life) return SLOTS_SAME_LIFE;
  if (slots->life[slot] > life) return SLOTS_OLD_LIFE;
  slots->life[slot] = life;
  slots->steps[slot] = 0;
  slots->previous_action[slot] = -1;
  return SLOTS_NEW_LIFE;
}

#endif
