/* Curiosity: a reward for observations that are new, made of the batch that is trained on, for
 * the actor-critics. `rnd`: a predictor learns what a fixed random network gives for an
 * observation; where it is still wrong, the observation is new. These intrinsic rewards have a
 * value and advantages of their own, which are added to those of the environment's rewards.
 *
 * All of it lives in parameters of the algorithm's own: the random network, the predictor, the
 * intrinsic value and their statistics are small mlps of the flattened observation. So acting and
 * inference do not get them, and a policy of any kind is left as it is.
 *
 * Upstream: actor_critic.c, ppo.c. Downstream: learner/network, learner/device.
 * Thread: the trainer's. Source: Burda et al. 2018, "Exploration by random network distillation";
 * the scale of the rewards is that of values (value_targets.h). */
#ifndef ACORN_LEARNER_LEARN_CURIOSITY_H
#define ACORN_LEARNER_LEARN_CURIOSITY_H

#include "learner/learn/algorithm.h"

struct curiosity;

/* clang-format off */
/* Of sums from number `first` on of an algorithm's. */
#define CURIOSITY_TERMS(first)                                                                     \
  {"train/intrinsic_reward", "mean intrinsic reward per step, over the deviation of its returns",  \
   "mean intrinsic reward", (first) + CURIOSITY_REWARD},                                           \
  {"loss/predictor", "loss of the predictor of the random network, on its share of the steps",     \
   "predictor loss", (first) + CURIOSITY_PREDICTOR_LOSS},                                          \
  {"loss/intrinsic_value", "loss of the value of intrinsic rewards, unweighted",                   \
   "intrinsic value loss", (first) + CURIOSITY_VALUE_LOSS}
/* clang-format on */
enum { CURIOSITY_NUM_TERMS = 3, CURIOSITY_SUMS = num_sums_of_curiosity };

/* The operation `check`. */
enum status curiosity_check(const struct network_config *network,
                            const struct algorithm_options *options, struct error *error);

/* NULL without --curiosity; all that follows does nothing for NULL. epochs, windows: 0, or passes
 * over the batch, each with parts of so many windows. */
struct curiosity *curiosity_create(const struct learning *learning, int epochs, int windows);
void curiosity_destroy(struct curiosity *self);

/* Operations of struct algorithm; self: a struct that begins with a struct curiosity *. */
const struct network_parameter *curiosity_parameters(const void *self, int *count);
void curiosity_init_parameters(const void *self, float *host, uint64_t seed);
void curiosity_begin(void *self, const struct schedule *schedule);

/* Reals of own parameters, 0 for NULL. */
size_t curiosity_num_parameters(const struct curiosity *self);

/* Once for each batch: to the advantages (T, N) of the environment's rewards, whose trace and
 * deviation of targets these are, come those of the intrinsic ones. params: all. */
void curiosity_advantages(struct curiosity *self, real *advantage, const real *params,
                          const struct train_batch *batch, const struct device_inputs *inputs,
                          const struct device_trace *trace, const real *deviation);

/* The part of a batch that a pass is over. */
struct curiosity_part {
  const int32_t *row;           /* (T, n) of the batch's steps; NULL: all, in their order */
  const uint8_t *flags;         /* (T, n) */
  struct device_inputs *inputs; /* (T+1, n); not read without row */
  int epoch;
};

/* The gradient of own parameters, all of them, into their place; sums: (CURIOSITY_SUMS). */
void curiosity_gradient(struct curiosity *self, real *gradient, real *sums, const real *params,
                        const struct curiosity_part *part, const struct device_schedule *schedule);

void curiosity_settle(struct curiosity *self, const struct settled *settled);

/* What it adds to the total. losses: with its sums from number `first` on. */
double curiosity_loss(const struct curiosity *self, const struct losses *losses, int first);

#endif
