/* A world without content, for measuring the transport and the learner: observations of a chosen
 * size, episodes of a chosen length, reward 0, and no computation beyond filling the observation
 * with the number of the step. Nothing can be learnt here. Options: bytes, actions, episode_steps,
 * rows and columns.
 *
 * It also rehearses worlds that fail. ACORN_SYNTHETIC_FAULT=FAULT:STEPS in a process's environment
 * makes each instance there fail at its step number STEPS: "error" (it says so), "nan" (its reward
 * is none), "hang" (it never returns; with 0 steps it hangs while it is made), "crash" (a
 * segmentation fault), "child" (it leaves a process behind and goes on). It is no option, as it is
 * one process that fails and not the world. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "envs/builtin.h"

struct synthetic {
  size_t bytes;
  int num_actions;
  int episode_steps;
  int steps;
  char fault[8]; /* "": none */
  long fault_steps;
  long all_steps; /* of all episodes */
};

static const struct acorn_option options[] = {
    {"bytes", 64, 1, 1e7, 1, "bytes of an observation"},
    {"actions", 4, 1, 1e4, 1, "number of actions; none has an effect"},
    {"episode_steps", 1000, 1, 1e9, 1, "every episode terminates after so many steps"},
    {"rows", 0, 0, 4096, 1, "an image with so many rows; 0: `bytes` in a row"},
    {"columns", 84, 1, 4096, 1, "columns of that image"},
};

static int synthetic_space(struct acorn_space *space, const struct acorn_config *config,
                           char *error, size_t error_bytes) {
  (void)error, (void)error_bytes;
  space->num_tensors = 1;
  int rows = builtin_option(config, 3), columns = builtin_option(config, 4);
  if (rows)
    space->tensor[0] = (struct acorn_tensor){"image", ACORN_UINT8, 2, {rows, columns}};
  else
    space->tensor[0] = (struct acorn_tensor){"bytes", ACORN_UINT8, 1, {builtin_option(config, 0)}};
  space->discrete = builtin_option(config, 1);
  return 0;
}

static void read_fault(struct synthetic *env) {
  const char *text = getenv("ACORN_SYNTHETIC_FAULT");
  if (text && sscanf(text, "%7[a-z]:%ld", env->fault, &env->fault_steps) != 2) env->fault[0] = '\0';
}

static void hang(const struct synthetic *env) {
  while (strcmp(env->fault, "hang") == 0) pause();
}

static void *synthetic_create(const struct acorn_config *config, char *error, size_t error_bytes) {
  (void)error, (void)error_bytes;
  struct synthetic *env = calloc(1, sizeof *env);
  if (!env) return NULL;
  int rows = builtin_option(config, 3);
  env->bytes = (size_t)(rows ? rows * builtin_option(config, 4) : builtin_option(config, 0));
  env->num_actions = builtin_option(config, 1);
  env->episode_steps = builtin_option(config, 2);
  read_fault(env);
  if (env->fault_steps == 0) hang(env);
  return env;
}

static void leave_child(void) {
  if (fork() != 0) return;
  execlp("sleep", "sleep", "1000", (char *)NULL);
  _exit(1);
}

/* Returns what the step returns. */
static int fail(const struct synthetic *env, struct acorn_row *row, char *error,
                size_t error_bytes) {
  if (strcmp(env->fault, "nan") == 0) row->reward = NAN;
  if (strcmp(env->fault, "crash") == 0) raise(SIGSEGV);
  if (strcmp(env->fault, "child") == 0) leave_child();
  hang(env);
  if (strcmp(env->fault, "error") != 0) return 0;
  snprintf(error, error_bytes, "a fault was asked for after %ld steps", env->fault_steps);
  return -1;
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
  if (++env->all_steps == env->fault_steps) return fail(env, row, error, error_bytes);
  return 0;
}

const struct acorn_env env_synthetic = {
    .abi = ACORN_ENV_ABI,
    .struct_bytes = sizeof(struct acorn_env),
    .name = "synthetic",
    .about = "observations of a chosen size and nothing to learn, for measuring the transport",
    .options = options,
    .num_options = 5,
    .space = synthetic_space,
    .create = synthetic_create,
    .reset = synthetic_reset,
    .step = synthetic_step,
    .destroy = free,
};
