/* A sheep walks home over a square meadow with holes. It sees the way home and the eight fields
 * around it. Home: +1, the world ends. A hole: -1, the world ends. Every step costs 0.01. After
 * max_steps the episode is cut. */
#include <acorn/env.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NORTH, EAST, SOUTH, WEST, NUM_ACTIONS };
enum { SIZE, HOLES, MAX_STEPS, NUM_OPTIONS };
enum { MAX_SIZE = 32 };

static const struct acorn_option options[NUM_OPTIONS] = {
    {"size", 7, 3, MAX_SIZE, 1, "fields on a side"},
    {"holes", 0.12, 0, 0.5, 0, "how much of the meadow is holes"},
    {"max_steps", 50, 1, 1e6, 1, "the episode is cut after so many steps"},
};

struct meadow {
  int size, max_steps;
  double holes;
  uint64_t random; /* state of the generator */
  unsigned char hole[MAX_SIZE][MAX_SIZE];
  int row, column, home_row, home_column, steps;
};

/* Uniform in 0..1: SplitMix64 (Steele, Lea, Flood 2014). */
static double draw(struct meadow *env) {
  uint64_t x = env->random += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

static int draw_field(struct meadow *env) {
  return (int)(draw(env) * env->size);
}

static int meadow_space(struct acorn_space *space, const struct acorn_config *config, char *error,
                        size_t error_bytes) {
  (void)config, (void)error, (void)error_bytes;
  space->num_tensors = 2;
  space->tensor[0] = (struct acorn_tensor){"home", ACORN_FLOAT32, 1, {2}};
  space->tensor[1] = (struct acorn_tensor){"around", ACORN_UINT8, 2, {3, 3}};
  space->discrete = NUM_ACTIONS;
  return 0;
}

static void *meadow_create(const struct acorn_config *config, char *error, size_t error_bytes) {
  struct meadow *env = calloc(1, sizeof *env);
  if (!env) {
    snprintf(error, error_bytes, "out of memory");
    return NULL;
  }
  env->size = (int)config->option[SIZE].value;
  env->holes = config->option[HOLES].value;
  env->max_steps = (int)config->option[MAX_STEPS].value;
  return env;
}

static int is_grass(const struct meadow *env, int row, int column) {
  return row >= 0 && row < env->size && column >= 0 && column < env->size &&
         !env->hole[row][column];
}

/* Writes every byte of both tensors. */
static void observe(const struct meadow *env, struct acorn_row *out) {
  float *home = out->observation[0];
  unsigned char *around = out->observation[1];
  home[0] = (float)(env->home_row - env->row) / (float)env->size;
  home[1] = (float)(env->home_column - env->column) / (float)env->size;
  for (int i = 0; i < 9; i++)
    around[i] = is_grass(env, env->row + i / 3 - 1, env->column + i % 3 - 1) ? 0 : 255;
}

static int meadow_reset(void *self, const uint64_t *seed, struct acorn_row *out, char *error,
                        size_t error_bytes) {
  (void)error, (void)error_bytes;
  struct meadow *env = self;
  if (seed) env->random = *seed;
  for (int row = 0; row < env->size; row++)
    for (int column = 0; column < env->size; column++)
      env->hole[row][column] = draw(env) < env->holes;
  env->row = draw_field(env), env->column = draw_field(env);
  do {
    env->home_row = draw_field(env), env->home_column = draw_field(env);
  } while (env->home_row == env->row && env->home_column == env->column);
  env->hole[env->row][env->column] = env->hole[env->home_row][env->home_column] = 0;
  env->steps = 0;
  observe(env, out);
  return 0;
}

static int meadow_step(void *self, const void *action, struct acorn_row *out, char *error,
                       size_t error_bytes) {
  (void)error, (void)error_bytes;
  static const int down[NUM_ACTIONS] = {-1, 0, 1, 0}, right[NUM_ACTIONS] = {0, 1, 0, -1};
  struct meadow *env = self;
  int32_t chosen = *(const int32_t *)action;
  env->row += down[chosen];
  env->column += right[chosen];
  env->steps++;

  int at_home = env->row == env->home_row && env->column == env->home_column;
  int lost = !is_grass(env, env->row, env->column);
  observe(env, out);
  out->reward = (at_home ? 1.0f : lost ? -1.0f : 0.0f) - 0.01f;
  out->terminated = at_home || lost;
  out->truncated = env->steps >= env->max_steps;
  out->num_numbers = 1;
  out->number_name[0] = "at_home";
  out->number[0] = at_home;
  return 0;
}

/* For people, scripts/watch.sh: a pixel for each field, which is shown enlarged. */
static int meadow_render(void *self, struct acorn_picture *picture, char *error,
                         size_t error_bytes) {
  (void)error, (void)error_bytes;
  struct meadow *env = self;
  picture->width = picture->height = env->size;
  if (!picture->pixels) return 0;
  for (int i = 0; i < env->size * env->size; i++) {
    int row = i / env->size, column = i % env->size;
    unsigned char *pixel = picture->pixels + 3 * i, *red = pixel, *green = pixel + 1;
    memset(pixel, 0, 3);
    if (row == env->row && column == env->column)
      memset(pixel, 255, 3);
    else if (row == env->home_row && column == env->home_column)
      *red = 220;
    else if (!env->hole[row][column])
      *green = 120;
  }
  return 0;
}

const struct acorn_env acorn_environment = {
    .abi = ACORN_ENV_ABI,
    .struct_bytes = sizeof(struct acorn_env),
    .name = "meadow",
    .about = "a sheep walks home between holes",
    .options = options,
    .num_options = NUM_OPTIONS,
    .space = meadow_space,
    .create = meadow_create,
    .reset = meadow_reset,
    .step = meadow_step,
    .destroy = free,
    .render = meadow_render,
};
