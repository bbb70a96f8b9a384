/* The run's policy for a single environment, beside the picture: the action it chooses, the
 * probabilities it chose from, and its estimate of the value. It sees what inference in the learner
 * sees (previous action and reward, recurrent state, stacked frames) and draws the same random
 * numbers, so that it plays as the run's evaluation with one environment does.
 * Upstream: deploy/inspect/watch/watch.c. Downstream: learner/network. Thread: one. */
#ifndef ACORN_DEPLOY_INSPECT_WATCH_CHOOSER_H
#define ACORN_DEPLOY_INSPECT_WATCH_CHOOSER_H

#include "learner/run/run.h"

struct chooser;

struct chooser_choice {
  const void *action; /* space_action_bytes of them; its own, until the next call */
  float value; /* of the state: the network's, or the largest of an action; 0 if there is none */
  const float *probability;  /* (A); the policy's, until the next call. Of an action of several
                                numbers: where each lies within its bounds */
  const float *action_value; /* (A), likewise; NULL unless the head gives values of actions */
  const float *number;       /* (A), likewise: the action's; NULL: it is one of the actions */
};

/* Borrows the run, which was made to evaluate, for its life. */
struct chooser *chooser_create(struct run *run);
void chooser_destroy(struct chooser *chooser);

/* Where the environment writes its next row. Shapes: (row_stride), as run->inputs describes it. */
uint8_t *chooser_row(struct chooser *chooser);

/* Reads the row, with the reward of the step into it and its flags (enum step_flag), and chooses.
 * One call for each row that a learner would get: on a truncated one the action means nothing. */
struct chooser_choice chooser_act(struct chooser *chooser, float reward, uint8_t flags);

#endif
