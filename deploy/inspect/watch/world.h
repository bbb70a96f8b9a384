/* One environment in this process: its episode, its row, and its picture.
 * The picture is what the environment draws of itself; where it draws nothing, the first part of
 * its observation that is an image.
 * Upstream: deploy/inspect/watch/watch.c. Downstream: envs/env.h. Thread: main. */
#ifndef ACORN_DEPLOY_INSPECT_WATCH_WORLD_H
#define ACORN_DEPLOY_INSPECT_WATCH_WORLD_H

#include "common/picture/canvas.h"
#include "envs/env.h"
#include "learner/run/run.h"

struct world {
  const struct acorn_env *env;
  struct acorn_config config;
  const struct run *run; /* borrowed: its space and the layout of a row */
  void *instance;
  const uint8_t *row;              /* the caller's */
  void *tensor[SPACE_MAX_TENSORS]; /* places in it */
  struct canvas picture;           /* heap; width 0 before the first world_draw */
  int image; /* the tensor of run->inputs that is shown; -1: the environment's own picture */

  /* this episode */
  double score;
  int64_t steps;
  float reward;  /* of the last step */
  uint8_t flags; /* enum step_flag of the row as it stands */
};

/* row: where rows are written, laid out as run->inputs says; borrowed. Errors: INVALID, IO, with
 * the environment's sentence. */
MUST_CHECK enum status world_open(struct world *world, const struct run *run, uint8_t *row,
                                  struct error *error);
void world_close(struct world *world);

/* Starts an episode. Errors: IO. */
MUST_CHECK enum status world_reset(struct world *world, uint64_t seed, struct error *error);
/* One step. *ended: the episode is over; the flags say how, and the row is its last. A life that is
 * lost is none: the game goes on, and the row is the first of the next life. Shapes: action
 * (space_action_bytes). Errors: IO. */
MUST_CHECK enum status world_step(struct world *world, const void *action, bool *ended,
                                  struct error *error);

/* Brings the picture up to date. Errors: NOT_FOUND: there is nothing to show; IO. */
MUST_CHECK enum status world_draw(struct world *world, struct error *error);

/* "left"; where the environment has no word, "action 0", or of several choices "1: 0". */
const char *world_action_name(const struct world *world, int action, char text[32]);

#endif
