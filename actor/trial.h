/* Plays an environment once under given conditions and records it, for actor --check_env.
 * The row that the environment writes stands between guard bytes.
 * Upstream: actor/check_env.c. Downstream: envs/env.h. Thread: main. */
#ifndef ACORN_ACTOR_TRIAL_H
#define ACORN_ACTOR_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/wire.h"
#include "envs/env.h"

enum { TRIAL_MAX_STEPS = 10000, TRIAL_SUMS = SPACE_MAX_TENSORS + 1 };

/* What a play saw, as checksums of each row, resets and steps in order: of each tensor, then of
 * the rest of the row. */
struct trial_record {
  uint32_t (*sum)[TRIAL_SUMS]; /* (2 * TRIAL_MAX_STEPS), heap */
  int num_rows, num_steps;
};

/* What its finished episodes were like. */
struct trial_summary {
  int terminated, truncated;
  double length, lowest, highest, total; /* sums of lengths and returns */
};

struct trial_condition {
  uint64_t seed;
  uint8_t fill;   /* what is in the observation before it is written */
  int warm_up;    /* steps of another episode before the first reset that counts */
  bool neighbour; /* another instance plays in turns with this one */
  bool pictures;  /* its first rows are drawn */
};

struct trial {
  const struct acorn_env *env;       /* borrowed */
  const struct acorn_config *config; /* borrowed */
  const struct space *space;         /* borrowed */
  uint8_t *memory;                   /* each tensor between guards */
  size_t memory_bytes;
  void *tensor[SPACE_MAX_TENSORS];
  struct acorn_row row;
  float action[SPACE_MAX_BOX]; /* or int32, one for each choice */
  uint8_t *allowed[2];         /* (discrete) after the last row of each instance; NULL for a box */
  struct error fault;          /* the first rule that was broken */
};

void trial_init(struct trial *trial, const struct acorn_env *env, const struct acorn_config *config,
                const struct space *space);
void trial_deinit(struct trial *trial);

void trial_record_init(struct trial_record *record);
void trial_record_deinit(struct trial_record *record);

/* Plays up to `steps` steps of random actions, always the same ones; with a summary (may be NULL)
 * no longer than two seconds. False: a rule was broken, trial->fault says which. */
bool trial_play(struct trial *trial, struct trial_record *record, struct trial_summary *summary,
                const struct trial_condition *how, int steps);

#endif
