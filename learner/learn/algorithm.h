/* An algorithm: how a batch of experience becomes a gradient. A row of operations in a file of its
 * own (vtrace.c, q_learning.c); algorithms.h pairs it with a policy, and train/update.c keeps what
 * all share: schedules, reduction, clipping, the optimiser, checkpoints.
 *
 * Upstream: train/update.c. Downstream: learner/network, learner/device. Thread: the trainer's.
 * Invariant: the gradient depends on nothing but the parameters, the batch and the schedule, so
 * that a resumed run goes on bit for bit. */
#ifndef ACORN_LEARNER_LEARN_ALGORITHM_H
#define ACORN_LEARNER_LEARN_ALGORITHM_H

#include "learner/experience/batch.h"
#include "learner/learn/algorithm_options.h"
#include "learner/learn/policy.h"
#include "learner/network/network.h"

enum { LOSS_MAX_TERMS = 16, LOSS_MAX_SUMS = 20, ALGORITHM_MAX_PARAMETERS = 40 };
/* The first sum of every algorithm. */
enum { LOSS_STEPS };

/* A figure of an update, and its metric. What is printed, exported and documented of an algorithm's
 * losses follows from its list of these. */
struct loss_term {
  const char *name;    /* of the metric: "loss/policy" */
  const char *help;    /* what it means, in a phrase */
  const char *checked; /* its name in the error that ends a run where it is not finite; NULL: it is
                          not looked at, though its sum is. Only with a sum. Causes stand before
                          consequences. */
  int sum;             /* which sum it is the mean of, over the steps that count; -1: of none,
                          `complete` computes it */
};

/* What is in force in one update. */
struct schedule {
  int64_t update; /* its number, from 1 */
  double learning_rate;
  double entropy_cost;
};

/* The losses of one update, on the host. */
struct losses {
  double total;   /* what the update minimised, as a mean over steps */
  double entropy; /* of the policy; NaN: the algorithm has none */
  double term[LOSS_MAX_TERMS];
  double sum[LOSS_MAX_SUMS]; /* what most terms are means of, not divided */
};

/* A second copy of the parameters. */
enum target_kind {
  TARGET_NONE,
  TARGET_COPIED,  /* what they were at an earlier update: --target_update */
  TARGET_AVERAGED /* what `settle` makes of them */
};

/* (P) each, device memory: the network's parameters, then the algorithm's own. */
struct parameters {
  const real *online; /* what is trained */
  const real *target; /* NULL unless the algorithm has one */
};

/* What an update may change besides what the optimiser does. Device memory. */
struct settled {
  real *online, *target;              /* as above */
  const real *skipped;                /* (1): 0; or NaN, then nothing is changed */
  const struct device_inputs *inputs; /* of the batch; NULL: it is blank */
};

/* What an algorithm is made for. Borrowed for its life. */
struct learning {
  struct device *device;
  const struct network *network;
  const struct policy *policy; /* that acts; its actions are the batch's */
  const struct algorithm_options *options;
  int num_windows; /* N of a batch */
  uint64_t seed;
};

/* The optimiser's steps of an update: over all windows of the batch `epochs` times, in so many
 * minibatches of whole windows. A pass is one of these steps. */
struct passes {
  int epochs, minibatches;
};

struct algorithm {
  const struct loss_term *terms;
  int num_terms;
  int curious_terms; /* the last so many of them: those of --curiosity, and without it none */
  int num_sums;      /* reals that follow the gradient, see below */
  int num_figures;   /* the last so many of them: nothing is trained on them, and one that is
                            not finite ends no run */
  int stop_sum; /* 0, or one of those figures: if a pass makes it infinite or NaN, neither this pass
                   nor those after it in the update change the parameters. Only with passes; no
                   update is begun then before the one before it has been finished */
  int divergence_sum;    /* 0, or the sum of the policy's divergences, by which the learning rate is
                         adapted (--kl_threshold). Only with stop_sum */
  bool gives_priorities; /* to each window of a batch (batch->priority), which was sampled from a
                            replay by these, with weights; false: a replay samples uniformly */
  enum target_kind target;
  int networks; /* that are trained, as large as the policy's, its own included; 0 counts as 1 */
  /* What memory is planned by: workspaces of such networks, with a backward pass for the steps of a
   * pass, where 0 counts as 1, and for forward passes over all steps of the batch. */
  int trained, evaluated;
  /* Whether it can train this network. NULL: any. Errors: INVALID. */
  enum status (*check)(const struct network_config *network,
                       const struct algorithm_options *options, struct error *error);
  /* NULL: one epoch, one minibatch. Errors: INVALID. */
  enum status (*passes)(struct passes *out, const struct algorithm_options *options,
                        int num_windows, struct error *error);
  void *(*create)(const struct learning *learning);
  void (*destroy)(void *self);
  /* Parameters of its own, which are trained with the network's and lie behind them: offsets are
   * from the network's first one on; at most ALGORITHM_MAX_PARAMETERS. Inference does not get
   * them. init: writes their first values into `host`, an array of all. NULL: none. */
  const struct network_parameter *(*parameters)(const void *self, int *count);
  void (*init_parameters)(const void *self, float *host, uint64_t seed);
  /* What varies with the update besides the batch and the device's schedule, such as noise: given
   * to the device before the update's other operations, and not recorded. May be NULL. */
  void (*begin)(void *self, const struct schedule *schedule);
  /* Once for each update, before its passes, by operations as for `gradient`: what they have in
   * common, such as targets. May be NULL. */
  void (*prepare)(void *self, const struct parameters *params, const struct train_batch *batch,
                  const struct device_inputs *inputs);
  /* Of a pass, from 0; the parameters are as the pass before it left them. Only gives the device
   * operations, and the same for the same batch each time: they are recorded
   * (learner/device/recorded.h). The gradient (P) of the loss, and right behind it (num_sums) sums
   * over the steps, the first of them the number of steps that count: so that one reduction over
   * several learners takes both. inputs: what the network reads of the (T+1, N) steps. */
  void (*gradient)(void *self, real *gradient, const struct parameters *params,
                   const struct train_batch *batch, const struct device_inputs *inputs,
                   const struct device_schedule *schedule, int pass);
  /* Once for each update, behind its passes, likewise: what it changes of the parameters itself.
   * May be NULL. */
  void (*settle)(void *self, const struct settled *settled);
  /* From the sums of all passes, and the terms that are means of them, to the total, the entropy
   * and the other terms. */
  void (*complete)(const void *self, struct losses *losses, const struct schedule *schedule);
};

#endif
