/* The options of the algorithms: those of all, and those of a family, under a heading that names
 * its agents.
 * Upstream: run/options.h, algorithm.h. Thread: start only. */
#ifndef ACORN_LEARNER_LEARN_ALGORITHM_OPTIONS_H
#define ACORN_LEARNER_LEARN_ALGORITHM_OPTIONS_H

#include <string.h>

#include "learner/learn/actor_critic_options.h"
#include "learner/learn/curiosity_options.h"
#include "learner/learn/ppo_options.h"
#include "learner/learn/q_learning_options.h"
#include "learner/learn/sac_options.h"

struct algorithm_options {
  int64_t unroll_length, batch_size;
  double discount, reward_scale, reward_clip;
  char *loss_reduction;
  struct actor_critic_options actor_critic;
  struct curiosity_options curiosity;
  struct ppo_options ppo;
  struct q_learning_options q_learning;
  struct sac_options sac;
};

#define ALGORITHM_HEADING "Algorithm"

/* See common/base/option_rows.h; `at` is the member of the program's options. */
#define ALGORITHM_ROWS(at)                                                                         \
  INT("unroll_length", at.unroll_length, "20", 1, 10000, ALGORITHM_HEADING,                        \
      "steps T of a training window, besides --burn_in"),                                          \
      INT("batch_size", at.batch_size, "32", 0, 65536, ALGORITHM_HEADING,                          \
          "windows N of a training batch, of all learners together; 0: one of every environment, " \
          "num_envs; by default 0 for ppo and a2c, and for vtrace an eighth of them, 4 to 32"),    \
      FLOAT("discount", at.discount, "0.99", 0, 1, ALGORITHM_HEADING, "gamma"),                    \
      FLOAT("reward_scale", at.reward_scale, "1", 0, 1e9, ALGORITHM_HEADING,                       \
            "rewards are multiplied by this for training: for returns of hundreds, 0.01"),         \
      FLOAT("reward_clip", at.reward_clip, "0", 0, 1e9, ALGORITHM_HEADING,                         \
            "scaled rewards are clipped to +- this for training; 0: not"),                         \
      CHOICE("loss_reduction", at.loss_reduction, "mean", "mean|sum_over_time", ALGORITHM_HEADING, \
             "loss of a batch: the mean over all its steps, or the sum over the steps of a "       \
             "window and the mean over windows, which is unroll_length times as large"),           \
      ACTOR_CRITIC_ROWS(at.actor_critic), CURIOSITY_ROWS(at.curiosity), PPO_ROWS(at.ppo),          \
      Q_LEARNING_ROWS(at.q_learning), SAC_ROWS(at.sac)

/* Whether losses are sums over the steps of a window. */
static inline bool algorithm_sums_over_time(const struct algorithm_options *options) {
  return strcmp(options->loss_reduction, "sum_over_time") == 0;
}

static inline bool algorithm_is_curious(const struct algorithm_options *options) {
  const char *kind = options->curiosity.kind;
  return kind && strcmp(kind, "rnd") == 0;
}

/* Steps of an unroll whose loss counts: all, or those whose n-step return ends inside it. */
static inline int q_learning_counted_steps(const struct algorithm_options *options) {
  const struct q_learning_options *own = &options->q_learning;
  return (int)(options->unroll_length - (own->partial_returns ? 0 : own->n_steps - 1));
}

#endif
