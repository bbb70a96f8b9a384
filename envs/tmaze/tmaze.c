/* The T-maze, a test of memory: the first observation of an episode shows a cue, north or south; a
 * corridor follows, and at the junction at its end the arm that the cue named pays 1, the other 0.
 * In between the cue is not to be seen, so an agent without memory earns 0.5 on average. Option:
 * length.
 *
 *                       #N#
 *   cue > . . . . . . .  J      `length` steps east to the junction J, then north or south
 *                       #S#
 *
 * In the corridor exactly one action, east, advances; the others stay. At the junction east and
 * west stay. After 3 x length steps the episode ends with reward 0: standing still is worth
 * nothing, so that is a termination.
 * Source: Bakker 2001, "Reinforcement learning with long short-term memory", section 4. */
#include <stdlib.h>

#include "envs/builtin.h"
#include "envs/pcg64.h"

enum { NORTH, EAST, SOUTH, WEST, NUM_ACTIONS };

struct tmaze {
  int length;
  int position; /* 0..length; length is the junction */
  int steps;
  int cue; /* NORTH or SOUTH */
  struct pcg64 rng;
};

static const struct acorn_option options[] = {
    {"length", 10, 1, 1e6, 1, "steps from the cue to the junction"},
};

static int tmaze_space(struct acorn_space *space, const struct acorn_config *config, char *error,
                       size_t error_bytes) {
  (void)config, (void)error, (void)error_bytes;
  space->num_tensors = 1;
  space->tensor[0] = (struct acorn_tensor){"signs", ACORN_FLOAT32, 1, {4}};
  space->discrete = NUM_ACTIONS;
  return 0;
}

static void *tmaze_create(const struct acorn_config *config, char *error, size_t error_bytes) {
  (void)error, (void)error_bytes;
  struct tmaze *env = calloc(1, sizeof *env);
  if (!env) return NULL;
  env->length = builtin_option(config, 0);
  pcg64_seed(&env->rng, 0);
  return env;
}

/* Shapes: (4) = cue north, cue south, in the corridor, at the junction; each 0 or 1. The cue is
 * there before the first step only, also for an agent that stays. */
static void observe(const struct tmaze *env, struct acorn_row *row) {
  float *signs = row->observation[0];
  signs[0] = env->steps == 0 && env->cue == NORTH;
  signs[1] = env->steps == 0 && env->cue == SOUTH;
  signs[2] = env->position < env->length;
  signs[3] = env->position == env->length;
}

static int tmaze_reset(void *self, const uint64_t *seed, struct acorn_row *row, char *error,
                       size_t error_bytes) {
  (void)error, (void)error_bytes;
  struct tmaze *env = self;
  if (seed) pcg64_seed(&env->rng, *seed);
  env->cue = pcg64_below(&env->rng, 2) == 0 ? NORTH : SOUTH;
  env->position = 0;
  env->steps = 0;
  observe(env, row);
  return 0;
}

static int tmaze_step(void *self, const void *action, struct acorn_row *row, char *error,
                      size_t error_bytes) {
  struct tmaze *env = self;
  int chosen = *(const int32_t *)action;
  if (builtin_check_action("tmaze", chosen, NUM_ACTIONS, error, error_bytes)) return -1;

  int at_junction = env->position == env->length;
  int arm_chosen = at_junction && (chosen == NORTH || chosen == SOUTH);
  if (!at_junction && chosen == EAST) env->position++;
  env->steps++;

  observe(env, row);
  row->reward = arm_chosen && chosen == env->cue ? 1.0f : 0.0f;
  row->terminated = arm_chosen || env->steps >= 3 * env->length;
  row->truncated = 0;
  return 0;
}

const struct acorn_env env_tmaze = {
    .abi = ACORN_ENV_ABI,
    .struct_bytes = sizeof(struct acorn_env),
    .name = "tmaze",
    .about = "remember a cue along a corridor (Bakker's T-maze), a test of memory",
    .options = options,
    .num_options = 1,
    .space = tmaze_space,
    .create = tmaze_create,
    .reset = tmaze_reset,
    .step = tmaze_step,
    .destroy = free,
};
