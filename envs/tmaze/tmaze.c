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

enum { NORTH, EAST, SOUTH, WEST, NUM_ACTIONS, STAYS = NUM_ACTIONS };

struct tmaze {
  int length;
  int position; /* 0..length; length is the junction */
  int steps;
  int cue; /* NORTH or SOUTH */
  int arm; /* that was chosen; STAYS: none yet */
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
  env->arm = STAYS;
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
  if (arm_chosen) env->arm = chosen;
  env->steps++;

  observe(env, row);
  row->reward = arm_chosen && chosen == env->cue ? 1.0f : 0.0f;
  row->terminated = arm_chosen || env->steps >= 3 * env->length;
  row->truncated = 0;
  return 0;
}

/* ---- for people */

enum { CELL = 20, MAX_CELLS = 30 };

static void draw_cell(const struct canvas *canvas, int row, int column, uint32_t colour) {
  canvas_rectangle(canvas, column * CELL + 1, row * CELL + 1, CELL - 2, CELL - 2, colour);
}

/* Where the player stands in a picture of so many cells: a long corridor is drawn shorter. */
static int column_of(const struct tmaze *env, int cells) {
  return (int)((int64_t)env->position * (cells - 1) / env->length);
}

/* The maze from above: the arm that pays is green, and the cue too for as long as it is seen. */
static int tmaze_render(void *self, struct acorn_picture *picture, char *error,
                        size_t error_bytes) {
  (void)error, (void)error_bytes;
  const struct tmaze *env = self;
  const uint32_t wall = 0x1d2733, floor = 0xdfe4e8, pays = 0x58b368, empty = 0xc9685b;
  int cells = (env->length < MAX_CELLS ? env->length : MAX_CELLS) + 1;
  struct canvas canvas;
  if (!builtin_begin_picture(&canvas, picture, (cells + 2) * CELL, 5 * CELL)) return 0;
  canvas_fill(&canvas, wall);
  for (int i = 0; i < cells; i++) draw_cell(&canvas, 2, 1 + i, floor);
  draw_cell(&canvas, 1, cells, env->cue == NORTH ? pays : empty);
  draw_cell(&canvas, 3, cells, env->cue == SOUTH ? pays : empty);
  if (env->steps == 0) draw_cell(&canvas, env->cue == NORTH ? 1 : 3, 1, pays);
  double row = env->arm == NORTH ? 1 : env->arm == SOUTH ? 3 : 2;
  double x = (1.5 + column_of(env, cells)) * CELL, y = (row + 0.5) * CELL;
  canvas_line(&canvas, x, y, x, y, 0.6 * CELL, 0x2f6fb0);
  return 0;
}

static const char *tmaze_action_name(void *self, int action) {
  static const char *const names[NUM_ACTIONS] = {"north", "east", "south", "west"};
  (void)self;
  return names[action];
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
    .render = tmaze_render,
    .action_name = tmaze_action_name,
};
