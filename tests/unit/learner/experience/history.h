/* Steps whose every value follows from (slot, life, step): the plain history that pages, FIFO and
 * replay are compared with. */
#ifndef ACORN_TESTS_UNIT_LEARNER_EXPERIENCE_HISTORY_H
#define ACORN_TESTS_UNIT_LEARNER_EXPERIENCE_HISTORY_H

#include <stdbool.h>
#include <string.h>

#include "common/base/random.h"
#include "common/wire/wire.h"
#include "learner/experience/pages.h"
#include "tests/unit/learner/experience/pages_count.h"
#include "tests/unit/support/discrete_shape.h"
#include "tests/unit/support/host_batch.h"

enum { HISTORY_STATISTICS = 2 }; /* at most */

struct history_step {
  uint64_t bits;
  int32_t action, previous_action;
  float statistics[HISTORY_STATISTICS], reward;
  uint8_t flags;
  int64_t version;
};

static inline uint64_t history_bits(int slot, uint32_t life, uint64_t step) {
  return random_bits(1, (uint32_t)slot, life, (uint32_t)step, RANDOM_TEST);
}

static inline int32_t history_action(int slot, uint32_t life, uint64_t step) {
  return (int32_t)(history_bits(slot, life, step) >> 8 & 0xffff);
}

/* Every seventh step or so starts an episode, and the first of a life does. */
static inline struct history_step history_step(int slot, uint32_t life, uint64_t step) {
  uint64_t bits = history_bits(slot, life, step);
  bool first = step == 0 || bits % 7 == 0;
  return (struct history_step){
      .bits = bits,
      .action = history_action(slot, life, step),
      .previous_action = first ? -1 : history_action(slot, life, step - 1),
      .statistics = {(float)(bits >> 40), (float)(bits >> 48)},
      .reward = (float)(bits >> 44 & 0xff) - 100,
      .flags = (uint8_t)((bits & 0xfe) | (first ? STEP_FIRST : 0)),
      .version = (int64_t)(bits >> 9),
  };
}

static inline uint8_t history_byte(uint64_t bits, size_t i) {
  return (uint8_t)((bits >> i % 8 * 8) + i / 8 * 31);
}

static inline double history_state(int slot, uint32_t life, uint64_t step, int i) {
  return (double)(history_bits(slot, life, step) >> 50) + i * 0.5;
}

/* Writes the step where pages_append said: what inference does. */
static inline void history_write(struct pages *pages, struct device *device,
                                 const struct step_shape *shape, const struct pages_place *place,
                                 int slot, uint32_t life, uint64_t step) {
  enum { MAX_STRIDE = 8192, MAX_STATE = 16 };
  uint8_t observation[MAX_STRIDE];
  float state[MAX_STATE];
  struct history_step values = history_step(slot, life, step);
  int32_t before = step ? history_action(slot, life, step - 1) : -1;
  for (size_t i = 0; i < shape->row_stride; i++) observation[i] = history_byte(values.bits, i);
  for (int i = 0; i < shape->state_size; i++) state[i] = (float)history_state(slot, life, step, i);
  const struct host_step filed = {.observation = observation,
                                  .action = &values.action,
                                  .previous_action = &before,
                                  .statistics = values.statistics,
                                  .state = state,
                                  .reward = values.reward,
                                  .flags = values.flags,
                                  .version = values.version};
  host_step_file(pages, device, shape, place, &filed);
}

static inline bool history_row_matches(const struct train_batch *batch, size_t at,
                                       const struct history_step *step) {
  for (size_t i = 0; i < batch->shape.row_stride; i++)
    if (batch->observation[at * batch->shape.row_stride + i] != history_byte(step->bits, i))
      return false;
  const int32_t *action = batch->action, *previous_action = batch->previous_action;
  size_t statistics = (size_t)batch->shape.statistics;
  return action[at] == step->action && previous_action[at] == step->previous_action &&
         batch->reward[at] == step->reward && batch->flags[at] == step->flags &&
         memcmp(batch->statistics + at * statistics, step->statistics,
                statistics * sizeof(*step->statistics)) == 0;
}

static inline bool history_stamp_matches(uint64_t stamp, const struct history_step *step) {
  return step_stamp_flags(stamp) == step->flags && step_stamp_version(stamp) == step->version;
}

/* Whether a column of a batch that the host can read holds exactly its window's T+1 steps and the
 * state before the first. */
static inline bool history_matches(const struct train_batch *batch, int column) {
  const struct window *window = &batch->window[column];
  for (int t = 0; t <= batch->T; t++) {
    struct history_step step =
        history_step(window->slot, window->life, window->first_step + (uint64_t)t);
    if (!history_row_matches(batch, (size_t)t * (size_t)batch->N + (size_t)column, &step) ||
        !history_stamp_matches(*train_batch_stamp(batch, t, column), &step))
      return false;
  }
  const float *state =
      (const float *)batch->state + (size_t)column * (size_t)batch->shape.state_size;
  for (int i = 0; i < batch->shape.state_size; i++)
    if (state[i] != (float)history_state(window->slot, window->life, window->first_step, i))
      return false;
  return true;
}

#endif
