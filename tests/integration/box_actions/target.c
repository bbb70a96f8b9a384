/* A plugin whose action, two numbers, is to hit a target that the observation shows. Numbers have
 * bounds of several kinds; one outside of them ends the run with an error. */
#include <acorn/env.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { EPISODE = 8 };
enum { BOUNDED, WIDE, EQUAL, NONE };

struct target {
  uint64_t random;
  int steps, kind;
  float at[2], chosen[2]; /* in -1..1 */
};

static const struct acorn_option options[] = {
    {"kind", BOUNDED, BOUNDED, NONE, 1, "bounds of the second number"}};

static const float low[][2] = {{-2, 0}, {-2, -3e38f}, {-2, 7}, {-2, -INFINITY}};
static const float high[][2] = {{2, 10}, {2, 3e38f}, {2, 7}, {2, INFINITY}};

static int space(struct acorn_space *space, const struct acorn_config *config, char *error,
                 size_t error_bytes) {
  int kind = (int)config->option[0].value;
  (void)error, (void)error_bytes;
  space->num_tensors = 1;
  space->tensor[0] =
      (struct acorn_tensor){.name = "target", .dtype = ACORN_FLOAT32, .rank = 1, .shape = {2}};
  space->box = 2;
  for (int i = 0; i < 2; i++) space->low[i] = low[kind][i], space->high[i] = high[kind][i];
  return 0;
}

static void *create(const struct acorn_config *config, char *error, size_t error_bytes) {
  struct target *self = calloc(1, sizeof *self);
  (void)error, (void)error_bytes;
  if (self) self->kind = (int)config->option[0].value;
  return self;
}

static float next(struct target *self) {
  self->random = self->random * 6364136223846793005u + 1442695040888963407u;
  return (float)(self->random >> 40) * 0x1p-23f - 1;
}

static void show(struct target *self, struct acorn_row *row) {
  for (int i = 0; i < 2; i++) ((float *)row->observation[0])[i] = self->at[i] = 0.8f * next(self);
}

static int reset(void *env, const uint64_t *seed, struct acorn_row *row, char *error,
                 size_t error_bytes) {
  struct target *self = env;
  (void)error, (void)error_bytes;
  if (seed) self->random = *seed;
  self->steps = 0;
  show(self, row);
  return 0;
}

static int step(void *env, const void *action, struct acorn_row *row, char *error,
                size_t error_bytes) {
  struct target *self = env;
  const float *x = action, *l = low[self->kind], *h = high[self->kind];
  for (int i = 0; i < 2; i++) {
    if (!(x[i] >= l[i] && x[i] <= h[i])) {
      snprintf(error, error_bytes, "action %d is %.9g, outside %g..%g", i, x[i], l[i], h[i]);
      return -1;
    }
    if (self->kind == EQUAL && i == 1) break;
    float half = (h[i] - l[i]) / 2, at = isfinite(h[i] - l[i]) ? (x[i] - l[i]) / half - 1 : x[i];
    row->reward -= (at - self->at[i]) * (at - self->at[i]);
    self->chosen[i] = at;
  }
  row->truncated = ++self->steps == EPISODE;
  show(self, row);
  return 0;
}

/* The target in green, and what was chosen in red. */
static int render(void *env, struct acorn_picture *picture, char *error, size_t error_bytes) {
  struct target *self = env;
  enum { SIDE = 96 };
  (void)error, (void)error_bytes;
  picture->width = picture->height = SIDE;
  for (int i = 0; picture->pixels && i < SIDE * SIDE; i++) {
    float x = (float)(i % SIDE) / (SIDE / 2) - 1, y = (float)(i / SIDE) / (SIDE / 2) - 1;
    const float *const at[] = {self->chosen, self->at};
    for (int k = 0; k < 3; k++)
      picture->pixels[3 * i + k] =
          k < 2 && fabsf(x - at[k][0]) < 0.06f && fabsf(y - at[k][1]) < 0.06f ? 255 : 0;
  }
  return 0;
}

static void destroy(void *env) {
  free(env);
}

const struct acorn_env acorn_environment = {.abi = ACORN_ENV_ABI,
                                            .struct_bytes = sizeof(struct acorn_env),
                                            .name = "target",
                                            .about = "hit a target with two numbers",
                                            .options = options,
                                            .num_options = 1,
                                            .space = space,
                                            .create = create,
                                            .reset = reset,
                                            .step = step,
                                            .destroy = destroy,
                                            .render = render};
