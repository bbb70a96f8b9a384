// One environment alone, stepped by this process as an actor would: bench_env ENV ARGS STEPS prints
// us of CPU time and us of real time per step. Actions: 0, 1, 2, ... over and over.
#include <stdio.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "envs/registry.h"

enum { ERROR_BYTES = 512 };

struct play {
  const struct acorn_env *env;
  struct acorn_config config;
  struct space space;
  void *instance;
  void *tensor[SPACE_MAX_TENSORS];
  char error[ERROR_BYTES];
};

static void open_env(struct play *play, const char *word, const char *args) {
  struct error error;
  enum status status = registry_find(&play->env, word, &error);
  if (status == STATUS_OK) status = registry_config(&play->config, play->env, args, &error);
  if (status == STATUS_OK) status = registry_space(&play->space, play->env, &play->config, &error);
  CHECK(status == STATUS_OK, "%s", error.text);
  play->instance = play->env->create(&play->config, play->error, ERROR_BYTES);
  CHECK(play->instance, "%s", play->error);
  for (int i = 0; i < play->space.num_tensors; i++)
    play->tensor[i] = check_alloc(1, space_tensor_bytes(&play->space.tensor[i]));
}

static void reset(struct play *play, struct acorn_row *row, const uint64_t *seed) {
  *row = (struct acorn_row){.struct_bytes = sizeof *row, .observation = play->tensor};
  int failed = play->env->reset(play->instance, seed, row, play->error, ERROR_BYTES);
  CHECK(!failed, "%s", play->error);
}

static void step(struct play *play, struct acorn_row *row, int action) {
  *row = (struct acorn_row){.struct_bytes = sizeof *row, .observation = play->tensor};
  int32_t chosen = action % play->space.discrete;
  int failed = play->env->step(play->instance, &chosen, row, play->error, ERROR_BYTES);
  CHECK(!failed, "%s", play->error);
  if (row->terminated || row->truncated) reset(play, row, NULL);
}

int main(int argc, char **argv) {
  CHECK(argc == 4, "bench_env ENV ARGS STEPS");
  static struct play play;
  struct acorn_row row;
  const uint64_t seed = 1;
  int steps = atoi(argv[3]);
  open_env(&play, argv[1], argv[2]);
  reset(&play, &row, &seed);
  for (int t = 0; t < steps / 10; t++) step(&play, &row, t); // warm
  int64_t start_us = clock_now_us();
  int64_t start_cpu_us = clock_process_cpu_us();
  for (int t = 0; t < steps; t++) step(&play, &row, t);
  int64_t cpu_us = clock_process_cpu_us() - start_cpu_us, us = clock_now_us() - start_us;
  printf("%.4f %.4f\n", (double)cpu_us / steps, (double)us / steps);
  return 0;
}
