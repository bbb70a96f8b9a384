/* A world without content, for measuring the transport and the learner: observations of a chosen
 * size, episodes of a chosen length, reward 0, and no computation beyond filling the observation
 * with the number of the step. Nothing can be learnt here. Options: bytes, actions, episode_steps.
 * */
#include <stdlib.h>
#include <string.h>

#include "envs/builtin.h"

struct synthetic {
  size_t bytes;
  int num_actions;
  int episode_steps;
  int steps;
};

static const struct acorn_option options[] = {
    {"bytes", 64, 1, 1e7, 1, "bytes of an observation"},
    {"actions", 4, 1, 1e4, 1, "number of actions; none has an effect"},
    {"episode_steps", 1000, 1, 1e9, 1, "every episode terminates after so many steps"},
};

static int synthetic_space(struct acorn_space *space, const struct acorn_config *config,
                           char *error, size_t error_bytes) {
  (void)error, (void)error_bytes;
  space->num_tensors = 1;
  space->tensor[0] = (struct acorn_tensor){"bytes", ACORN_UINT8, 1, {builtin_option(config, 0)}};
  space->discrete = builtin_option(config, 1);
  return 0;
}

static void *synthetic_create(const struct acorn_config *config, char *error, size_t error_bytes) {
  (void)error, (void)error_bytes;
  struct synthetic *env = calloc(1, sizeof *env);
  if (!env) return NULL;
  env->bytes = (size_t)builtin_option(config, 0);
  env->num_actions = builtin_option(config, 1);
  env->episode_steps = builtin_option(config, 2);
  return env;
}

static void observe(const struct synthetic *env, struct acorn_row *row) {
  memset(row->observation[0], env->steps & 255, env->bytes);
}

static int synthetic_reset(void *self, const uint64_t *seed, struct acorn_row *row, char *error,
                           size_t error_bytes) {
  (void)seed, (void)error, (void)error_bytes;
  struct synthetic *env = self;
  env->steps = 0;
  observe(env, row);
  return 0;
}

static int synthetic_step(void *self, const void *action, struct acorn_row *row, char *error,
                          size_t error_bytes) {
  struct synthetic *env = self;
  int chosen = *(const int32_t *)action;
  if (builtin_check_action("synthetic", chosen, env->num_actions, error, error_bytes)) return -1;
  env->steps++;
  observe(env, row);
  row->reward = 0.0f;
  row->terminated = env->steps >= env->episode_steps;
  row->truncated = 0;
  return 0;
}

const struct acorn_env env_synthetic = {
    .abi = ACORN_ENV_ABI,
    .struct_bytes = sizeof(struct acorn_env),
    .name = "synthetic",
    .about = "observations of a chosen size and nothing to learn, for measuring the transport",
    .options = options,
    .num_options = 3,
    .space = synthetic_space,
    .create = synthetic_create,
    .reset = synthetic_reset,
    .step = synthetic_step,
    .destroy = free,
};
