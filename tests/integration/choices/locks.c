/* A plugin whose action turns three dials at once, to 3, 2 and 4 numbers. Each that is where the
 * observation shows it gives a third of a reward. With `stiff` some numbers cannot be turned to, as
 * its action_mask says; one that cannot ends it with an error. */
#include <acorn/env.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIALS = 3, NUMBERS = 9, EPISODE = 8 };
static const int AMONG[DIALS] = {3, 2, 4};

struct locks {
  uint64_t random;
  int steps, stiff, goal[DIALS];
  uint8_t can[NUMBERS];
};

static const struct acorn_option options[] = {
    {"stiff", 0, 0, 1, 1, "1: some numbers cannot be turned to"},
    {"dials", DIALS, -1, 99, 1, "what its space says, of which only 3 are right"}};

static int space(struct acorn_space *space, const struct acorn_config *config, char *error,
                 size_t error_bytes) {
  space->num_tensors = config->option[0].value > 0 ? 2 : 1;
  space->tensor[0] =
      (struct acorn_tensor){.name = "goal", .dtype = ACORN_UINT8, .rank = 1, .shape = {NUMBERS}};
  space->tensor[1] = (struct acorn_tensor){
      .name = "action_mask", .dtype = ACORN_UINT8, .rank = 1, .shape = {NUMBERS}};
  if (space->struct_bytes < sizeof *space) {
    snprintf(error, error_bytes, "it needs an Acorn that knows actions of several choices");
    return -1;
  }
  space->choices = (int)config->option[1].value;
  memcpy(space->among, AMONG, sizeof AMONG);
  return 0;
}

static void *create(const struct acorn_config *config, char *error, size_t error_bytes) {
  struct locks *self = calloc(1, sizeof *self);
  (void)error, (void)error_bytes;
  if (self) self->stiff = config->option[0].value > 0;
  return self;
}

static int next(struct locks *self, int below) {
  self->random = self->random * 6364136223846793005u + 1442695040888963407u;
  return (int)((self->random >> 33) % (uint64_t)below);
}

static void show(struct locks *self, struct acorn_row *row) {
  uint8_t *goal = row->observation[0];
  memset(goal, 0, NUMBERS);
  for (int c = 0, first = 0; c < DIALS; first += AMONG[c++]) {
    self->goal[c] = next(self, AMONG[c]);
    for (int i = 0; i < AMONG[c]; i++) self->can[first + i] = i == self->goal[c] || next(self, 2);
    goal[first + self->goal[c]] = 255;
  }
  if (self->stiff) memcpy(row->observation[1], self->can, NUMBERS);
}

static int reset(void *env, const uint64_t *seed, struct acorn_row *row, char *error,
                 size_t error_bytes) {
  struct locks *self = env;
  (void)error, (void)error_bytes;
  if (seed) self->random = *seed;
  self->steps = 0;
  show(self, row);
  return 0;
}

static int step(void *env, const void *action, struct acorn_row *row, char *error,
                size_t error_bytes) {
  struct locks *self = env;
  const int32_t *turned = action;
  for (int c = 0, first = 0; c < DIALS; first += AMONG[c++]) {
    if (turned[c] < 0 || turned[c] >= AMONG[c] || (self->stiff && !self->can[first + turned[c]])) {
      snprintf(error, error_bytes, "dial %d cannot be turned to %d", c, turned[c]);
      return -1;
    }
    row->reward += (float)(turned[c] == self->goal[c]) / DIALS;
  }
  row->truncated = ++self->steps == EPISODE;
  show(self, row);
  return 0;
}

static int render(void *env, struct acorn_picture *picture, char *error, size_t error_bytes) {
  struct locks *self = env;
  (void)error, (void)error_bytes;
  picture->width = picture->height = 64;
  if (picture->pixels) memset(picture->pixels, 20 * self->goal[0], 3 * 64 * 64);
  return 0;
}

static void destroy(void *env) {
  free(env);
}

const struct acorn_env acorn_environment = {.abi = ACORN_ENV_ABI,
                                            .struct_bytes = sizeof(struct acorn_env),
                                            .name = "locks",
                                            .about = "turn three dials to what is shown",
                                            .options = options,
                                            .num_options = 2,
                                            .space = space,
                                            .create = create,
                                            .reset = reset,
                                            .step = step,
                                            .destroy = destroy,
                                            .render = render};
