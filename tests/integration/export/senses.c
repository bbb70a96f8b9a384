/* A plugin with an observation of every kind: images of bytes and of numbers, channels last,
 * channels first, without any, and several of them; vectors of each type, a single number; names
 * that an exported policy has for its own; actions of one choice, of several, or of numbers.
 * Nothing can be learned. */
#include <acorn/env.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 40, COLUMNS = 44, EPISODE = 10, TENSORS = 8, ACTIONS = 3 };
enum action { ONE, SEVERAL, BOX };

static const struct acorn_tensor tensors[TENSORS] = {
    {"speed", ACORN_FLOAT32, 0, {0}},
    {"camera", ACORN_UINT8, 3, {ROWS, COLUMNS, 3}},
    {"action", ACORN_FLOAT32, 1, {3}},
    {"maps", ACORN_UINT8, 3, {2, ROWS, COLUMNS}},
    {"eyes", ACORN_UINT8, 4, {2, ROWS, COLUMNS, 3}},
    {"left/count", ACORN_INT32, 2, {2, 2}},
    {"depth", ACORN_FLOAT32, 2, {ROWS, COLUMNS}},
    {"touch", ACORN_UINT8, 1, {5}},
};

static const struct acorn_option options[] = {
    {"clash", 0, 0, 2, 1, "1: two names become one; 2: one is that of a policy's input"},
    {"action", ONE, ONE, BOX, 1, "kind of the actions"},
};

struct senses {
  uint64_t random;
  int steps;
  enum action action;
};

static int space(struct acorn_space *space, const struct acorn_config *config, char *error,
                 size_t error_bytes) {
  (void)error, (void)error_bytes;
  space->num_tensors = TENSORS;
  memcpy(space->tensor, tensors, sizeof tensors);
  static const char *const names[] = {"speed", "observation_action", "previous_reward"};
  space->tensor[0].name = names[(int)config->option[0].value];
  switch ((enum action)config->option[1].value) {
    case ONE:
      space->discrete = ACTIONS;
      break;
    case SEVERAL:
      space->choices = 2;
      space->among[0] = ACTIONS, space->among[1] = ACTIONS + 1;
      break;
    case BOX:
      space->box = 2;
      for (int i = 0; i < space->box; i++) space->low[i] = (float)-i - 1, space->high[i] = 4;
      break;
  }
  return 0;
}

static void *create(const struct acorn_config *config, char *error, size_t error_bytes) {
  struct senses *self = calloc(1, sizeof *self);
  (void)error, (void)error_bytes;
  if (self) self->action = (enum action)config->option[1].value;
  return self;
}

static int next(struct senses *self) {
  self->random = self->random * 6364136223846793005u + 1442695040888963407u;
  return (int)(self->random >> 56);
}

static void show(struct senses *self, struct acorn_row *row) {
  for (int k = 0; k < TENSORS; k++) {
    int count = 1;
    for (int i = 0; i < tensors[k].rank; i++) count *= tensors[k].shape[i];
    for (int i = 0; i < count; i++)
      if (tensors[k].dtype == ACORN_UINT8)
        ((uint8_t *)row->observation[k])[i] = (uint8_t)next(self);
      else if (tensors[k].dtype == ACORN_INT32)
        ((int32_t *)row->observation[k])[i] = next(self) % 5;
      else
        ((float *)row->observation[k])[i] = (float)next(self) / 64;
  }
}

static int reset(void *env, const uint64_t *seed, struct acorn_row *row, char *error,
                 size_t error_bytes) {
  struct senses *self = env;
  (void)error, (void)error_bytes;
  if (seed) self->random = *seed;
  self->steps = 0;
  show(self, row);
  return 0;
}

static int step(void *env, const void *action, struct acorn_row *row, char *error,
                size_t error_bytes) {
  struct senses *self = env;
  (void)error, (void)error_bytes;
  row->reward = self->action == BOX ? *(const float *)action : (float)*(const int32_t *)action;
  row->terminated = ++self->steps == EPISODE;
  show(self, row);
  return 0;
}

static void destroy(void *env) {
  free(env);
}

const struct acorn_env acorn_environment = {.abi = ACORN_ENV_ABI,
                                            .struct_bytes = sizeof(struct acorn_env),
                                            .name = "senses",
                                            .about = "an observation of every kind",
                                            .options = options,
                                            .num_options = 2,
                                            .space = space,
                                            .create = create,
                                            .reset = reset,
                                            .step = step,
                                            .destroy = destroy};
