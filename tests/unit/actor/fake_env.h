/* An environment that plays a script, for the tests of actor/: every episode is a list of step
 * outcomes. Its observation is a byte and a float, so that the float is not aligned on the wire:
 * {episode number, 100 x episode + step}. */
#ifndef ACORN_TESTS_UNIT_ACTOR_FAKE_ENV_H
#define ACORN_TESTS_UNIT_ACTOR_FAKE_ENV_H

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "envs/env.h"

/* Outcomes: '.' goes on, 'T' terminated, 'C' truncated (cut), 'B' both, 'L' terminated, and in
 * every other episode only a life, so that the game goes on; 'E' the step fails;
 * lies: 'N' a reward that is NaN, 'O' an observation that is, 'F' a flag that is none. */
static const char *fake_script = "..T";
static int fake_aligned;         /* 1: without the byte in front */
static int fake_failing_creates; /* so many creates fail from now on */
static int fake_failing_resets;  /* so many resets fail from now on */
static int fake_alive;           /* instances */
static int fake_strangers;       /* calls by a thread that has not made the instance */
static int fake_last_action;
static int fake_box; /* 1: an action is two numbers, in -1..2 and -8..1e30 */
static float fake_last_numbers[2];
enum { FAKE_MAX_SEEDS = 64, FAKE_UNSEEDED = -1 };
static int64_t fake_seed[FAKE_MAX_SEEDS]; /* of every reset so far, all instances */
static int fake_resets;

struct fake_env {
  int episode; /* -1 before the first reset */
  int step;
  pthread_t maker;
};

static inline void fake_look_at_thread(const struct fake_env *env) {
  if (!pthread_equal(env->maker, pthread_self())) fake_strangers++;
}

static inline int fake_space(struct acorn_space *space, const struct acorn_config *config,
                             char *error, size_t error_bytes) {
  (void)config, (void)error, (void)error_bytes;
  space->num_tensors = fake_aligned ? 1 : 2;
  space->tensor[0] = (struct acorn_tensor){"episode", ACORN_UINT8, 1, {1}};
  space->tensor[!fake_aligned] = (struct acorn_tensor){"step", ACORN_FLOAT32, 1, {1}};
  space->discrete = fake_box ? 0 : 1000;
  space->box = fake_box ? 2 : 0;
  space->low[0] = -1, space->high[0] = 2;
  space->low[1] = -8, space->high[1] = 1e30f;
  return 0;
}

static inline void *fake_create(const struct acorn_config *config, char *error,
                                size_t error_bytes) {
  (void)config;
  if (fake_failing_creates > 0) {
    fake_failing_creates--;
    snprintf(error, error_bytes, "no simulator");
    return NULL;
  }
  struct fake_env *env = calloc(1, sizeof(*env));
  env->episode = -1;
  env->maker = pthread_self();
  fake_alive++;
  return env;
}

static inline void fake_observe(const struct fake_env *env, struct acorn_row *row) {
  if (!fake_aligned) *(uint8_t *)row->observation[0] = (uint8_t)env->episode;
  *(float *)row->observation[!fake_aligned] = (float)(100 * env->episode + env->step);
}

static inline int fake_reset(void *self, const uint64_t *seed, struct acorn_row *row, char *error,
                             size_t error_bytes) {
  struct fake_env *env = self;
  fake_look_at_thread(env);
  if (fake_failing_resets > 0) {
    fake_failing_resets--;
    snprintf(error, error_bytes, "the emulator died");
    return -1;
  }
  if (fake_resets < FAKE_MAX_SEEDS) fake_seed[fake_resets] = seed ? (int64_t)*seed : FAKE_UNSEEDED;
  fake_resets++;
  env->episode++;
  env->step = 0;
  fake_observe(env, row);
  return 0;
}

static inline int fake_step(void *self, const void *action, struct acorn_row *row, char *error,
                            size_t error_bytes) {
  struct fake_env *env = self;
  fake_look_at_thread(env);
  char outcome = fake_script[env->step++];
  if (fake_box)
    memcpy(fake_last_numbers, action, sizeof(fake_last_numbers));
  else
    fake_last_action = *(const int32_t *)action;
  if (outcome == 'E') {
    snprintf(error, error_bytes, "a ROM is missing");
    return -1;
  }
  fake_observe(env, row);
  row->reward = outcome == 'N' ? NAN : (float)env->step;
  if (outcome == 'O') *(float *)row->observation[!fake_aligned] = NAN;
  row->terminated = outcome == 'F' ? 7 : outcome == 'T' || outcome == 'B' || outcome == 'L';
  row->goes_on = outcome == 'L' && env->episode % 2 == 0;
  row->truncated = outcome == 'C' || outcome == 'B';
  row->num_numbers = 1;
  row->number_name[0] = "lives";
  row->number[0] = 3;
  return 0;
}

static inline void fake_destroy(void *self) {
  fake_look_at_thread(self);
  fake_alive--;
  free(self);
}

static const struct acorn_env fake_env = {
    .abi = ACORN_ENV_ABI,
    .struct_bytes = sizeof(struct acorn_env),
    .name = "fake",
    .about = "a script",
    .space = fake_space,
    .create = fake_create,
    .reset = fake_reset,
    .step = fake_step,
    .destroy = fake_destroy,
};

#endif
