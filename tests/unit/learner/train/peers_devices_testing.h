/* Emulated GPUs for learners that are processes of a test (peers_world.h). */
#ifndef ACORN_TESTS_UNIT_LEARNER_TRAIN_PEERS_DEVICES_TESTING_H
#define ACORN_TESTS_UNIT_LEARNER_TRAIN_PEERS_DEVICES_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "learner/device/create.h"
#include "learner/train/peers_devices.h"
#include "learner/train/update.h"
#include "tests/unit/learner/train/peers_world.h"
#include "tests/unit/support/emulated_cuda.h"

/* Of this machine from here on; and NCCL. The memory of others is not the host's. */
static inline void peers_use_gpus(void) {
  unsetenv("ACORN_CUDA_PLUGIN");
  setenv("ACORN_EMULATED_CUDA", "gpus:4", 1);
  emulated_cuda_use();
  emulated_nccl_use();
}

static inline struct device *peers_gpu(int gpu) {
  struct device *device;
  struct error error;
  const struct device_options options = {.name = "cuda", .precision = "float32", .gpu = gpu};
  if (device_create_by(&device, &options, &error) != STATUS_OK) fail_msg("%s", error.text);
  return device;
}

/* Returns the way. */
static inline const char *peers_join(struct peers *peers, struct device *device) {
  static char way[PEERS_DEVICES_BYTES];
  struct error error;
  if (peers_join_devices(peers, device, way, &error) != STATUS_OK) fail_msg("%s", error.text);
  return way;
}

/* As the trainer does before each update. */
static inline void peers_agree(struct peers *peers, struct update *update,
                               const struct train_batch *batch) {
  double all[PEERS_MAX], mine = update_place(update, batch);
  struct error error;
  if (peers_exchange(peers, all, &mine, 1, &error) == STATUS_OK) update_agree(update, all);
}

/* As the trainer does behind the last one: none ends before the sums of all have ended. */
static inline void peers_meet(struct peers *peers) {
  double all[PEERS_MAX];
  const double mine = 0;
  struct error ignored;
  (void)!peers_exchange(peers, all, &mine, 1, &ignored);
}

#endif
