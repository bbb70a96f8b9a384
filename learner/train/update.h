/* One training step of any algorithm, and the state that a checkpoint must hold: parameters,
 * optimiser, counters.
 *
 * An update has one or more passes: the algorithm's gradient (forward, targets, losses, backward),
 * reduce, clip, optimiser. Given the same state and the same batches it gives the same bits, so
 * that a resumed run continues exactly.
 * Thread: the trainer's. Upstream: train/trainer.c. Downstream: learner/learn,
 * learner/device. */
#ifndef ACORN_LEARNER_TRAIN_UPDATE_H
#define ACORN_LEARNER_TRAIN_UPDATE_H

#include "learner/learn/algorithm.h"
#include "learner/params/checkpoint.h"
#include "learner/train/optimizer_options.h"

/* Means over the steps of one batch that count, in all passes. */
struct update_stats {
  struct losses losses; /* its total has the adjustment of the entropy cost in it */
  double gradient_norm; /* a mean over the passes */
  double learning_rate, entropy_cost;
  double lag_updates; /* mean of (version now - version that chose the action) */
  int64_t steps;      /* of the batch that count */
  bool stopped; /* after its first of several steps, or before it: stop_sum of the algorithm */
};

struct peers;
struct update;

struct update_config {
  const struct policy *policy; /* that acts */
  struct algorithm_options algorithm;
  struct optimizer_options optimizer;
  int num_windows, window_steps; /* of a batch */
  int64_t total_steps;           /* what a linear decay ends at */
  int64_t target_updates;        /* between two copies into the target network */
  uint64_t seed;                 /* of the parameters, and of noise */
  struct peers *peers;           /* the learners that this one trains with; NULL: none */
};

/* algorithm NULL: it only holds the parameters, for an evaluation.
 * Owner: all is borrowed for the update's life (of the config, its strings); the device is the
 * trainer's own. Errors: INVALID. */
MUST_CHECK enum status update_create(struct update **out, struct device *device,
                                     const struct network *network,
                                     const struct algorithm *algorithm,
                                     const struct update_config *config, struct error *error);
void update_destroy(struct update *update);

/* Where the devices of several learners are a group, an update is recorded, and played, by all
 * together, or computed directly by all. So before each update all learn the place of each one's
 * batch, above 0: places (learners), for the next update_start. Without it the sums go through the
 * host. */
int update_place(struct update *update, const struct train_batch *batch);
void update_agree(struct update *update, const double *places);

/* Starts an update; `environment_steps` so far, for the schedules. Nothing of the device is waited
 * for: the optimiser itself skips what is not finite, and all that was started behind it. Only
 * while no other one runs, or if update_may_overlap.
 * Owner: the batch is the update's until it has been finished, and lives as long as the update: on
 * a device with recordings its first update is given directly, its second is recorded, and later
 * ones are one call. At most 4 batches. */
void update_start(struct update *update, const struct train_batch *batch,
                  int64_t environment_steps);
/* Waits for the oldest update that runs, and reads its statistics. Errors: CORRUPT: a loss or
 * gradient is not finite: the update's number and the quantity are named; parameters, optimiser and
 * version are as before the update (parameters and optimiser: as before the pass, if there are
 * several), once those that were started behind it have been finished, too, with the same error.
 * UNAVAILABLE: another learner is missing; likewise. */
MUST_CHECK enum status update_finish(struct update *update, struct update_stats *stats,
                                     struct error *error);

/* Started and not finished, at most UPDATE_MAX_RUNNING. */
enum { UPDATE_MAX_RUNNING = 2 };
int update_running(const struct update *update);
/* Whether the next one may be started before all that run are finished: the device has work then
 * while the host reads statistics. Not where the target network is copied in between, nor where
 * passes may be left out (stop_sum of the algorithm). */
bool update_may_overlap(const struct update *update);

/* frame (T+1, N, stack - 1): rows of the batch's history that each step shows besides itself,
 * newest first; -1 instead of a frame of an earlier episode. */
void update_stack_frames(int32_t *frame, const struct train_batch *batch, int stack);

/* What the network reads of the first steps of up to `rows` windows: images (B, H, W, stack * C),
 * bytes as 0 to 1, the newest frame's channels first. Returns B. The network must read an image. */
int update_images(struct update *update, pixel *images, const struct train_batch *batch, int rows);
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

/* As train_state_read, train_state_write (state.h), while no update runs. */
void update_read_parameters(struct update *update, float *values);
void update_write_parameters(struct update *update, const float *values, const bool *given);

#endif
