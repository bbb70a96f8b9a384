/* The state of training that a checkpoint contains, for a resume that is exact to the bit.
 *
 * Parameters, optimiser, target network, entropy coefficient, number of updates; and their copy on
 * the host, which a checkpoint is written from and read into.
 *
 * Upstream: train/update.c; deploy/serve/served.c (train_state_item). Thread: the trainer's; the
 * host copy may be read by another thread between a save and the next one.
 * Invariant: load after save changes no bit (on a device of floats). */
#ifndef ACORN_LEARNER_TRAIN_STATE_H
#define ACORN_LEARNER_TRAIN_STATE_H

#include "learner/learn/algorithm.h"
#include "learner/params/checkpoint.h"
#include "learner/train/entropy.h"
#include "learner/train/optimizer.h"

/* The parameters, then the optimiser's arrays, then the target network's if there is one. */
enum { STATE_TARGET = 1 + OPTIMIZER_SLOTS, STATE_ARRAYS };

struct train_state {
  /* read-only after init */
  struct device *device;
  const struct network *network;
  const struct network_parameter *own; /* the algorithm's, behind the network's */
  int num_own;
  size_t P;       /* of both */
  int num_arrays; /* STATE_ARRAYS, or one fewer */

  /* the state */
  real *array[STATE_ARRAYS]; /* (P) each; the optimiser's belong to it */
  struct optimizer *optimizer;
  struct entropy_cost entropy;
  int64_t version;  /* updates done */
  int64_t steps;    /* of the optimiser */
  bool saves_steps; /* an update is not always one step */
  double rate;      /* share of the learning rate that is in force: --kl_threshold */
  bool adapts_rate;

  /* the host copy */
  float *saved[STATE_ARRAYS];
  struct scalar_adam saved_entropy;
  int64_t saved_version, saved_steps;
  double saved_rate;
};

/* Initial parameters from the seed, those of the target network too; version 0. algorithm, learner:
 * what trains, and its own; both NULL for the network's parameters alone. Errors: INVALID, and then
 * nothing is held. */
MUST_CHECK enum status train_state_init(struct train_state *state, struct device *device,
                                        const struct network *network,
                                        const struct optimizer_options *optimizer,
                                        const struct entropy_cost *entropy,
                                        const struct algorithm *algorithm, const void *learner,
                                        uint64_t seed, struct error *error);
void train_state_deinit(struct train_state *state);

/* A part of one flat array of floats, "<name>/<parameter>": of "params" what is published. */
struct checkpoint_item train_state_item(const char *name, float *array,
                                        const struct network_parameter *parameter);

/* As update_items, update_save, update_load (update.h). */
int train_state_items(struct train_state *state, struct checkpoint_item *items);
void train_state_save(struct train_state *state);
void train_state_load(struct train_state *state);

/* The parameters as they are: (P) floats. */
void train_state_read(struct train_state *state, float *values);
/* Sets those of the parameters, in their order, that are given; in the target network, too, which
 * would pull the others back to where they were. All else stays. */
void train_state_write(struct train_state *state, const float *values, const bool *given);

#endif
