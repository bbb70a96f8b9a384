/* What a training run must keep to go on exactly where it stopped: parameters, optimiser, entropy
 * coefficient, number of updates; and its copy on the host, which a checkpoint is written from and
 * read into.
 *
 * Upstream: train/update.c only. Thread: the trainer's; the host copy may be read by another thread
 * between a save and the next one.
 * Invariant: load after save changes no bit (on a device of floats). */
#ifndef ACORN_LEARNER_TRAIN_STATE_H
#define ACORN_LEARNER_TRAIN_STATE_H

#include "learner/network/network.h"
#include "learner/params/checkpoint.h"
#include "learner/train/entropy.h"
#include "learner/train/optimizer.h"

enum { STATE_ARRAYS = 1 + OPTIMIZER_SLOTS }; /* the parameters, then the optimiser's */

struct train_state {
  /* read-only after init */
  struct device *device;
  const struct network *network;
  size_t P;

  /* the state */
  real *array[STATE_ARRAYS]; /* (P) each; all but the parameters belong to the optimiser */
  struct optimizer *optimizer;
  struct entropy_cost entropy;
  int64_t version; /* updates done */

  /* the host copy */
  float *saved[STATE_ARRAYS];
  struct scalar_adam saved_entropy;
  int64_t saved_version;
};

/* Initial parameters from the seed, version 0. Errors: INVALID, and then nothing is held. */
MUST_CHECK enum status train_state_init(struct train_state *state, struct device *device,
                                        const struct network *network,
                                        const struct optimizer_config *optimizer,
                                        const struct entropy_cost *entropy, uint64_t seed,
                                        struct error *error);
void train_state_deinit(struct train_state *state);

/* As update_items, update_save, update_load (update.h). */
int train_state_items(struct train_state *state, struct checkpoint_item *items);
void train_state_save(struct train_state *state);
void train_state_load(struct train_state *state);

#endif
