/* The options of PPO alone: members and rows.
 * Upstream: algorithm_options.h. Thread: start only. */
#ifndef ACORN_LEARNER_LEARN_PPO_OPTIONS_H
#define ACORN_LEARNER_LEARN_PPO_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct ppo_options {
  int64_t epochs, minibatches;
  int most_minibatches; /* no option: what minibatches = 0 comes to; 0: the usual number */
  double clip_ratio, value_clip, target_kl, kl_threshold;
  bool normalize_advantages;
};

/* Their heading in the table. */
#define PPO_HEADING "PPO (ppo)"

/* See common/base/option_rows.h; `at` is the member of the program's options. */
#define PPO_ROWS(at)                                                                              \
  INT("epochs", at.epochs, "4", 1, 1000, PPO_HEADING,                                             \
      "how often an update goes over all windows of its batch; by default 10, but 4 for images "  \
      "or more than 4096 steps"),                                                                 \
      INT("minibatches", at.minibatches, "0", 0, 65536, PPO_HEADING,                              \
          "parts of the batch, an optimiser step for each: whole windows, shuffled in every "     \
          "epoch; 0: 4, of images 8, of continuous actions 16, or the most below it that "        \
          "divide batch_size"),                                                                   \
      FLOAT("clip_ratio", at.clip_ratio, "0.2", 0, 1e9, PPO_HEADING,                              \
            "how far from 1 the probability ratio of new and old policy counts"),                 \
      FLOAT("value_clip", at.value_clip, "0", 0, 1e9, PPO_HEADING,                                \
            "how far from the old value, in scaled rewards or, with --normalize_values, "         \
            "their deviations, the new one counts; 0: any"),                                      \
      FLOAT("target_kl", at.target_kl, "0", 0, 1e9, PPO_HEADING,                                  \
            "an update ends before the first step whose minibatch is further than this KL "       \
            "divergence from the policy that acted; 0: never"),                                   \
      FLOAT("kl_threshold", at.kl_threshold, "0", 0, 1e9, PPO_HEADING,                            \
            "an update whose policy/kl is more than twice this divides the learning "             \
            "rate by 1.5, one with less than half multiplies it; it stays between 0.01 and 1 of " \
            "what it would be without; 0: it is not adapted"),                                    \
      BOOL("normalize_advantages", at.normalize_advantages, "true", PPO_HEADING,                  \
           "advantages of a minibatch to mean 0, over their deviation, at least 0.01")

#endif
