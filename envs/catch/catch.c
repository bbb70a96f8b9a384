/* Catch: a ball falls one row per step, a paddle in the bottom row must be under it when it lands.
 * An image, a delayed reward, and nothing else: the smallest test of a convolutional agent.
 * Options: rows, columns; size, to see the board as a picture of size x size pixels.
 * Source: Osband et al. 2020, "Behaviour suite for reinforcement learning", Catch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "envs/builtin.h"
#include "envs/pcg64.h"

enum { LEFT, STAY, RIGHT, NUM_ACTIONS };

struct catch {
  int rows, columns;
  int height, width; /* of what is seen: one byte for a cell, or more */
  int ball_row, ball_column;
  int paddle_column;
  struct pcg64 rng;
};

static const struct acorn_option options[] = {
    {"rows", 10, 2, 1024, 1, "height of the board"},
    {"columns", 5, 1, 1024, 1, "width of the board"},
    {"size", 0, 0, 1024, 1, "draw the board as a picture of size x size; 0: a byte for each cell"},
};

/* Height or width of what is seen of `cells`. */
static int extent(const struct acorn_config *config, int cells) {
  int size = builtin_option(config, 2);
  return size ? size : cells;
}

static int catch_space(struct acorn_space *space, const struct acorn_config *config, char *error,
                       size_t error_bytes) {
  int rows = builtin_option(config, 0), columns = builtin_option(config, 1);
  int height = extent(config, rows), width = extent(config, columns);
  if (height < rows || width < columns) {
    snprintf(error, error_bytes, "catch: size %d is too small for %d rows and %d columns", height,
             rows, columns);
    return -1;
  }
  space->num_tensors = 1;
  space->tensor[0] = (struct acorn_tensor){"board", ACORN_UINT8, 2, {height, width}};
  space->discrete = NUM_ACTIONS;
  return 0;
}

static void *catch_create(const struct acorn_config *config, char *error, size_t error_bytes) {
  (void)error, (void)error_bytes;
  struct catch *env = calloc(1, sizeof *env);
  if (!env) return NULL;
  env->rows = builtin_option(config, 0);
  env->columns = builtin_option(config, 1);
  env->height = extent(config, env->rows);
  env->width = extent(config, env->columns);
  pcg64_seed(&env->rng, 0);
  return env;
}

/* One cell of the board, as wide and high as it is seen. */
static void draw(const struct catch *env, uint8_t *board, int row, int column) {
  int left = column * env->width / env->columns, right = (column + 1) * env->width / env->columns;
  int top = row * env->height / env->rows, bottom = (row + 1) * env->height / env->rows;
  for (int y = top; y < bottom; y++)
    memset(board + (size_t)y * env->width + left, 255, (size_t)(right - left));
}

static void observe(const struct catch *env, struct acorn_row *row) {
  uint8_t *board = row->observation[0];
  memset(board, 0, (size_t)env->height * env->width);
  draw(env, board, env->ball_row, env->ball_column);
  draw(env, board, env->rows - 1, env->paddle_column);
}

static int catch_reset(void *self, const uint64_t *seed, struct acorn_row *row, char *error,
                       size_t error_bytes) {
  (void)error, (void)error_bytes;
  struct catch *env = self;
  if (seed) pcg64_seed(&env->rng, *seed);
  env->ball_row = 0;
  env->ball_column = pcg64_below(&env->rng, env->columns);
  env->paddle_column = env->columns / 2;
  observe(env, row);
  return 0;
}

static int catch_step(void *self, const void *action, struct acorn_row *row, char *error,
                      size_t error_bytes) {
  struct catch *env = self;
  int chosen = *(const int32_t *)action;
  if (builtin_check_action("catch", chosen, NUM_ACTIONS, error, error_bytes)) return -1;

  // The paddle stops at the walls.
  int column = env->paddle_column + (chosen - STAY);
  if (column >= 0 && column < env->columns) env->paddle_column = column;
  env->ball_row++;

  observe(env, row);
  row->terminated = env->ball_row == env->rows - 1;
  row->truncated = 0;
  row->reward = !row->terminated ? 0.0f : env->ball_column == env->paddle_column ? 1.0f : -1.0f;
  return 0;
}

/* A pixel for each cell. */
static int catch_render(void *self, struct acorn_picture *picture, char *error,
                        size_t error_bytes) {
  (void)error, (void)error_bytes;
  const struct catch *env = self;
  struct canvas canvas;
  if (!builtin_begin_picture(&canvas, picture, env->columns, env->rows)) return 0;
  canvas_fill(&canvas, 0x1d2733);
  canvas_rectangle(&canvas, env->paddle_column, env->rows - 1, 1, 1, 0x4aa3df);
  canvas_rectangle(&canvas, env->ball_column, env->ball_row, 1, 1, 0xf5a742);
  return 0;
}

static const char *catch_action_name(void *self, int action) {
  static const char *const names[NUM_ACTIONS] = {"left", "stay", "right"};
  (void)self;
  return names[action];
}

const struct acorn_env env_catch = {
    .abi = ACORN_ENV_ABI,
    .struct_bytes = sizeof(struct acorn_env),
    .name = "catch",
    .about = "catch a falling ball with a paddle (bsuite's Catch), an image as observation",
    .options = options,
    .num_options = 3,
    .space = catch_space,
    .create = catch_create,
    .reset = catch_reset,
    .step = catch_step,
    .destroy = free,
    .render = catch_render,
    .action_name = catch_action_name,
};
