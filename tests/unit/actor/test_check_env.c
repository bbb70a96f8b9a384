// An environment with one fault at a time: each is found under its own name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "actor/check_env.h"
#include "common/wire/wire.h"

enum fault {
  NONE,
  CHANCE,
  UNWRITTEN,
  FORGETS,
  SHARES,
  BEFORE,
  BEHIND,
  NOT_A_NUMBER,
  FAILS,
  NO_END,
  NO_CHANCE,
  IN_ACTION,
  LIVES,
  ODD_LIVES,
  /* pictures */
  PAINTS,
  NO_PICTURE,
  GROWS,
  SPILLS,
  LEAVES_PIXELS,
  DISTURBS,
  NO_BRUSH,
};
static enum fault fault;
static uint64_t shared, calls;
static int alive;

struct dice {
  uint64_t random;
  int steps;
  int lost; /* only a life */
};

static void *dice_create(const struct acorn_config *config, char *error, size_t error_bytes) {
  (void)config, (void)error, (void)error_bytes;
  alive++;
  return calloc(1, sizeof(struct dice));
}

static void dice_destroy(void *self) {
  alive--;
  free(self);
}

static uint64_t draw(struct dice *env) {
  uint64_t *random = fault == SHARES ? &shared : &env->random;
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return *random >> 33;
}

static void observe(struct dice *env, struct acorn_row *row) {
  uint8_t *face = row->observation[0];
  float *eyes = row->observation[1];
  for (int i = 0; i < 5 - (fault == UNWRITTEN); i++) face[i] = (uint8_t)draw(env);
  if (fault == BEFORE) face[-1] = 0;
  if (fault == BEHIND) eyes[2] = 0;
  eyes[0] = fault == CHANCE ? (float)calls++ : 1;
  eyes[1] = 2;
}

static int dice_reset(void *self, const uint64_t *seed, struct acorn_row *row, char *error,
                      size_t error_bytes) {
  (void)error, (void)error_bytes;
  struct dice *env = self;
  if (seed) env->random = shared = fault == NO_CHANCE ? 1 : *seed;
  if (!seed && fault == NO_CHANCE) env->random = 1;
  if (fault != FORGETS && (seed || !env->lost)) env->steps = 0;
  env->lost = 0;
  observe(env, row);
  return 0;
}

static int dice_step(void *self, const void *action, struct acorn_row *row, char *error,
                     size_t error_bytes) {
  struct dice *env = self;
  const float *push = action;
  if (push[0] < -1 || push[0] > 1 || push[1] < 3 || push[1] > 4) fault = IN_ACTION;
  if (fault == FAILS) {
    snprintf(error, error_bytes, "no dice");
    return -1;
  }
  env->steps++;
  observe(env, row);
  row->reward = fault == NOT_A_NUMBER && env->steps == 3 ? 0.0f / (float)(env->steps - 3) : 1;
  row->truncated = fault != NO_END && env->steps % 50 == 0;
  env->lost = (fault == LIVES || fault == ODD_LIVES) && env->steps % 10 == 0 && !row->truncated;
  row->terminated = env->lost;
  row->goes_on = fault == ODD_LIVES ? calls++ % 3 == 0 : env->lost;
  return 0;
}

/* 3 x 2 pixels. */
static int dice_render(void *self, struct acorn_picture *picture, char *error, size_t error_bytes) {
  struct dice *env = self;
  if (fault == NO_PICTURE) return 0;
  picture->width = fault == GROWS && env->steps == 5 ? 4 : 3;
  picture->height = 2;
  if (!picture->pixels) return 0;
  for (int i = 0; i < 18 - (fault == LEAVES_PIXELS); i++) picture->pixels[i] = (uint8_t)env->steps;
  if (fault == SPILLS) picture->pixels[18] = 0;
  if (fault == DISTURBS) env->random++;
  if (fault == NO_BRUSH) snprintf(error, error_bytes, "no brush");
  return fault == NO_BRUSH ? -1 : 0;
}

static const struct acorn_env dice = {.struct_bytes = sizeof(struct acorn_env),
                                      .name = "dice",
                                      .render = dice_render,
                                      .create = dice_create,
                                      .reset = dice_reset,
                                      .step = dice_step,
                                      .destroy = dice_destroy};
static const struct space space = {
    .num_tensors = 2,
    .tensor = {{"face", DTYPE_UINT8, 2, {5, 1}}, {"eyes", DTYPE_FLOAT32, 1, {2}}},
    .box = 2,
    .low = {-1, 3},
    .high = {1, 4}};

static void finds_each_fault(void **state) {
  (void)state;
  static const struct {
    enum fault fault;
    bool holds;
    const char *words;
  } cases[] = {
      {NONE, true, "200 (0 terminated, 200 truncated), mean length 50.0, mean return 50.000"},
      {NONE, true, "face uint8[5,1]"},
      {LIVES, true, "200 (0 terminated, 200 truncated), mean length 50.0, mean return 50.000"},
      {ODD_LIVES, false,
       "FAIL  the same seed and actions give the same episodes: in row 1 the "
       "reward or an ending differs"},
      {NO_END, true, "no episode ended"},
      {NO_CHANCE, true, "another seed gives the same episodes"},
      {CHANCE, false,
       "FAIL  the same seed and actions give the same episodes: in row 0 the "
       "observation 'eyes' differs"},
      {UNWRITTEN, false,
       "FAIL  every byte of an observation is written: in row 0 the observation "
       "'face' differs"},
      {FORGETS, false,
       "FAIL  reset starts afresh in the middle of an episode: in row 37 the "
       "reward or an ending differs"},
      {SHARES, false, "FAIL  instances share nothing: in row 1 the observation 'face' differs"},
      {BEFORE, false, "FAIL  rows are as they should be: it wrote before the observation 'face'"},
      {BEHIND, false, "FAIL  rows are as they should be: it wrote behind the observation 'eyes'"},
      {NOT_A_NUMBER, false, "FAIL  rows are as they should be: its reward is "},
      {FAILS, false, "FAIL  rows are as they should be: step failed: no dice"},
      {PAINTS, true, "ok    pictures are whole, and drawing them changes nothing"},
      {NO_PICTURE, true, "ok    pictures are whole"},
      {GROWS, false, "changes nothing: its picture was 3 x 2 and is now 4 x 2"},
      {SPILLS, false, "changes nothing: it wrote behind its picture of 3 x 2"},
      {LEAVES_PIXELS, false, "changes nothing: it leaves some of its picture unwritten"},
      {DISTURBS, false, "changes nothing: in row 1 the observation 'face' differs"},
      {NO_BRUSH, false, "changes nothing: render failed: no brush"},
  };
  const struct acorn_config config = {.struct_bytes = sizeof(config)};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    fault = cases[i].fault;
    bool holds = check_env(&dice, &config, &space, out);
    fclose(out);
    if (holds != cases[i].holds || !strstr(text, cases[i].words))
      fail_msg("'%s' is not in: %s", cases[i].words, text);
    assert_int_equal(fault, cases[i].fault); // not IN_ACTION
    assert_int_equal(alive, 0);
    free(text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(finds_each_fault)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
