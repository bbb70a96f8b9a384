/* What a stored frame costs in the pool of a V-trace run on the Atari: the run is made by the
 * learner's own code from the Atari's settings, with a synthetic environment of its shape. The
 * bytes that the pool has for observations, over the steps that training can reach at its fullest:
 * every slot has filled a page while its last window waits.
 * Usage: bench_pool FOLDER (for the run folders) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/run/run.h"
#include "tests/unit/learner/experience/pages_count.h"

enum { ACTORS = 4, FRAME_BYTES = 84 * 84, WINDOWS = 3 };

/* Which step of which slot a row holds. */
struct stamp {
  int32_t slot, step;
};

static void must(enum status status, const struct error *error) {
  CHECK(status == STATUS_OK, "%s", error->text);
}

static void set(struct learner_options *options, const char *name, const char *value) {
  struct error error;
  must(options_set(&learner_options_table, options, name, value, "", &error), &error);
}

/* As ./run_local.sh atari vtrace 4 has them. */
static void make_options(struct learner_options *options, const char *folder,
                         const char *lstm_size) {
  char path[512], num_envs[16];
  options_init(&learner_options_table, options);
  set(options, "env", "atari");
  set(options, "lstm_size", lstm_size);
  learner_options_apply_preset(options);
  snprintf(num_envs, sizeof num_envs, "%d", ACTORS * learner_default_envs_per_actor("atari"));
  snprintf(path, sizeof path, "%s/%s", folder, lstm_size);
  set(options, "num_envs", num_envs);
  set(options, "logdir", path);
  set(options, "env", "synthetic");
  set(options, "env_args", "{\"rows\": 84, \"columns\": 84, \"actions\": 6}");
}

static void ignore(void *context) {
  (void)context;
}

/* Fills a slot until its last window waits and the page behind it is full. Returns the first step
 * that training still needs. */
static int fill_slot(struct run *run, int slot) {
  struct pages *pages = run->pages;
  int T = (int)run->options->algorithm.unroll_length, windows = 0, first = 0, left = T - 1;
  pages_begin_life(pages, slot, 1);
  for (int step = 1; windows < WINDOWS || left-- > 0; step++) {
    struct pages_place place = pages_append(pages, slot);
    if (place.row >= 0)
      memcpy(pages_rows(pages)->pool.observation + (size_t)place.row * run->inputs.row_stride,
             &(struct stamp){slot, step}, sizeof(struct stamp));
    if (!place.closes_window) continue;
    first = step - T - (run->inputs.stack - 1);
    if (++windows < WINDOWS) pages_release(pages, &place.window);
  }
  return first;
}

/* Bytes per step where so many environments play. */
static double bytes_per_step(struct run *run, int num_envs) {
  int *first = check_alloc((size_t)num_envs, sizeof *first);
  for (int slot = 0; slot < num_envs; slot++) first[slot] = fill_slot(run, slot);
  int64_t rows = pages_capacity_steps(run->pages), reached = 0;
  for (int64_t row = 0; row < rows; row++) {
    struct stamp stamp;
    const uint8_t *observation = pages_rows(run->pages)->pool.observation;
    memcpy(&stamp, observation + (size_t)row * run->inputs.row_stride, sizeof stamp);
    reached += stamp.step > 0 && stamp.step >= first[stamp.slot];
  }
  free(first);
  return (double)pages_observation_bytes(run->pages) / (double)reached;
}

static void measure(const char *folder, const char *lstm_size) {
  static struct run run;
  struct learner_options options = {0};
  const struct run_callbacks callbacks = {ignore, ignore, NULL, NULL};
  struct error error;
  make_options(&options, folder, lstm_size);
  must(run_create(&run, &options, &callbacks, &error), &error);
  memset(pages_rows(run.pages)->pool.observation, 0, pages_observation_bytes(run.pages));
  int expected = (int)options.num_envs;
  double some = bytes_per_step(&run, expected), all = bytes_per_step(&run, run.num_train_slots);
  printf(
      "pool of V-trace, stacks of %d, unroll %lld, room for %d environments: all of them: "
      "%.1f B a step, ratio %.4f; the %d expected: ratio %.4f\n",
      run.inputs.stack, (long long)options.algorithm.unroll_length, run.num_train_slots, all,
      all / FRAME_BYTES, expected, some / FRAME_BYTES);
  run_destroy(&run);
  options_deinit(&learner_options_table, &options);
}

int main(int argc, char **argv) {
  CHECK(argc == 2, "usage: bench_pool FOLDER");
  measure(argv[1], "256");
  measure(argv[1], "0");
  return 0;
}
