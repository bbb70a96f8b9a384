/* One V-trace training step, and the state that a checkpoint must hold: parameters, optimiser,
 * counters.
 *
 * A train step is: forward, V-trace, losses, backward, reduce (identity with one learner), clip,
 * optimiser. Given the same state and the same batches it gives the same bits, so that a resumed
 * run continues exactly.
 * Source: Espeholt et al. 2018 (IMPALA), eq. 1 and section 4.2; all terms are means over unmasked
 * steps (SEED RL).
 * Thread: the trainer's. Upstream: train/trainer.c. Downstream: learner/network, learner/device. */
#ifndef ACORN_LEARNER_TRAIN_UPDATE_H
#define ACORN_LEARNER_TRAIN_UPDATE_H

#include "learner/network/network.h"
#include "learner/experience/batch.h"
#include "learner/params/checkpoint.h"

struct update_config {
  int T, N;
  double discount;                      /* gamma */
  double lambda;                        /* 1 */
  double rho_clip, c_clip, pg_rho_clip; /* 1, 1, 1 */
  double reward_scale;                  /* times every reward */
  double reward_clip;                   /* then to +- this; 0: off */
  double baseline_cost, entropy_cost, kl_cost;
  /* < 0: off; else the entropy coefficient is adjusted so that the mean entropy approaches it */
  double target_entropy;
  double entropy_adjustment_speed; /* 10 */
  const char *optimizer;           /* "adam", "rmsprop" */
  double learning_rate;
  const char *learning_rate_decay; /* "none", "linear" (to 0 at total_steps) */
  int64_t total_steps;             /* environment steps of the whole run, for the decay */
  double adam_beta1, adam_beta2, adam_epsilon;
  double rmsprop_decay, rmsprop_momentum, rmsprop_epsilon;
  double max_gradient_norm; /* 0: no clipping */
  uint64_t seed;            /* of the initial parameters */
};

/* Means over the unmasked steps of one batch. */
struct update_stats {
  double policy_loss, baseline_loss, entropy, kl, total_loss;
  double value, reward, rho_clipped; /* rho_clipped: share of steps with rho > rho_clip */
  double gradient_norm, learning_rate, entropy_cost;
  double lag_updates; /* mean of (version now - version that chose the action) */
  int64_t steps;      /* unmasked steps in the batch */
};

struct update;

/* Parameters are initialised from the seed. The device is the trainer's own. Errors: INVALID. */
MUST_CHECK enum status update_create(struct update **out, struct device *device,
                                     const struct network *network,
                                     const struct update_config *config, struct error *error);
void update_destroy(struct update *update);

/* One step; `environment_steps` so far, for the schedules. Errors: CORRUPT: a loss or gradient is
 * not finite: the update's number and the quantity are named, and parameters and optimiser are as
 * before the step. */
MUST_CHECK enum status update_step(struct update *update, const struct train_batch *batch,
                                   int64_t environment_steps, struct update_stats *stats,
                                   struct error *error);

/* frame (T+1, N, stack): what each step of the batch shows, newest first; NULL instead of a frame
 * of an earlier episode. */
void update_stack_frames(const uint8_t **frame, const struct train_batch *batch, int stack);

/* What the network reads of the first steps of up to `rows` windows: images (B, H, W, stack * C), 0
 * to 1, the newest frame's channels first. Returns B. The network must read an image. */
int update_images(struct update *update, real *images, const struct train_batch *batch, int rows);
/* Numbers of one such image. */
size_t update_image_numbers(const struct update *update);

const real *update_parameters(const struct update *update);
size_t update_num_parameters(const struct update *update);
int64_t update_version(const struct update *update); /* updates done so far */

/* The state as checkpoint items ("params/<name>", "adam/m/<name>", ..., "update/version"), each
 * pointing into one host buffer of the update's own (so the trainer can go on while it is written).
 * update_save copies device -> buffer, update_load buffer -> device. Returns the number of items;
 * `items` has room for CHECKPOINT_MAX_ITEMS. */
int update_items(struct update *update, struct checkpoint_item *items);
void update_save(struct update *update);
void update_load(struct update *update);

#endif
