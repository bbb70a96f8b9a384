/* A plugin whose action is to go through the door that the observation shows. Some of the others
 * are closed, as its action_mask says, its first tensor; one that is closed ends it with an error.
 * When an episode is over all are closed. */
#include <acorn/env.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOORS = 6, EPISODE = 8 };
enum { SOME, NONE, TOO_MANY, ALONE, FLOATS };

struct doors {
  uint64_t random;
  int steps, kind, goal;
  uint8_t open[DOORS + 1];
};

static const struct acorn_option options[] = {
    {"kind", SOME, SOME, FLOATS, 1, "what is wrong with its mask: 0: nothing"}};

static int space(struct acorn_space *space, const struct acorn_config *config, char *error,
                 size_t error_bytes) {
  int kind = (int)config->option[0].value;
  (void)error, (void)error_bytes;
  space->num_tensors = kind == ALONE ? 1 : 2;
  space->tensor[0] = (struct acorn_tensor){.name = "action_mask",
                                           .dtype = kind == FLOATS ? ACORN_FLOAT32 : ACORN_UINT8,
                                           .rank = 1,
                                           .shape = {DOORS + (kind == TOO_MANY)}};
  space->tensor[1] =
      (struct acorn_tensor){.name = "goal", .dtype = ACORN_UINT8, .rank = 1, .shape = {DOORS}};
  space->discrete = DOORS;
  return 0;
}

static void *create(const struct acorn_config *config, char *error, size_t error_bytes) {
  struct doors *self = calloc(1, sizeof *self);
  (void)error, (void)error_bytes;
  if (self) self->kind = (int)config->option[0].value;
  return self;
}

static int next(struct doors *self, int below) {
  self->random = self->random * 6364136223846793005u + 1442695040888963407u;
  return (int)((self->random >> 33) % (uint64_t)below);
}

static void show(struct doors *self, struct acorn_row *row) {
  self->goal = next(self, DOORS);
  for (int i = 0; i < DOORS; i++) self->open[i] = i == self->goal || next(self, 2);
  if (row->truncated || (self->kind == NONE && self->steps == 3)) memset(self->open, 0, DOORS);
  memcpy(row->observation[0], self->open, DOORS);
  for (int i = 0; i < DOORS; i++) ((uint8_t *)row->observation[1])[i] = i == self->goal ? 255 : 0;
}

static int reset(void *env, const uint64_t *seed, struct acorn_row *row, char *error,
                 size_t error_bytes) {
  struct doors *self = env;
  (void)error, (void)error_bytes;
  if (seed) self->random = *seed;
  self->steps = 0;
  show(self, row);
  return 0;
}

static int step(void *env, const void *action, struct acorn_row *row, char *error,
                size_t error_bytes) {
  struct doors *self = env;
  int door = *(const int32_t *)action;
  if (!self->open[door]) {
    snprintf(error, error_bytes, "door %d is closed", door);
    return -1;
  }
  row->reward = door == self->goal;
  row->truncated = ++self->steps == EPISODE;
  show(self, row);
  return 0;
}

static int render(void *env, struct acorn_picture *picture, char *error, size_t error_bytes) {
  struct doors *self = env;
  (void)error, (void)error_bytes;
  picture->width = 16 * DOORS, picture->height = 32;
  for (int i = 0; picture->pixels && i < 32 * 16 * DOORS; i++)
    memset(picture->pixels + 3 * i, self->open[i / 16 % DOORS] ? 200 : 30, 3);
  return 0;
}

static void destroy(void *env) {
  free(env);
}

const struct acorn_env acorn_environment = {.abi = ACORN_ENV_ABI,
                                            .struct_bytes = sizeof(struct acorn_env),
                                            .name = "doors",
                                            .about = "go through the door that is shown",
                                            .options = options,
                                            .num_options = 1,
                                            .space = space,
                                            .create = create,
                                            .reset = reset,
                                            .step = step,
                                            .destroy = destroy,
                                            .render = render};
