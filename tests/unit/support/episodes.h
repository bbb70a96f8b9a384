/* Finished episodes for tests, where only return and length matter. */
#ifndef ACORN_TESTS_UNIT_SUPPORT_EPISODES_H
#define ACORN_TESTS_UNIT_SUPPORT_EPISODES_H

#include "learner/episodes/progress.h"

static inline void add_episode(struct progress *progress, bool eval, int environment,
                               double episode_return, uint32_t length) {
  struct progress_episode episode = {.eval = eval,
                                     .environment = environment,
                                     .episode_return = episode_return,
                                     .length = length,
                                     .actor = "actor/0/0"};
  progress_add_episode(progress, &episode);
}

static inline void keep_episode(struct progress *progress, int environment, double episode_return,
                                uint32_t length) {
  struct progress_episode episode = {.environment = environment,
                                     .episode_return = episode_return,
                                     .length = length,
                                     .actor = "actor/0/0"};
  progress_keep_episode(progress, &episode);
}

#endif
