/* Scaling and clipping of rewards, for trace.cu and n_step.cu.
 * Upstream: learner/device/cuda. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_REWARDS_H
#define ACORN_LEARNER_DEVICE_CUDA_REWARDS_H

#include "learner/device/cuda/portable.h"

/* NaN stays NaN. */
DEVICE float clip(float x, float limit) {
  return x > limit ? limit : x < -limit ? -limit : x;
}

/* limit 0: not clipped. */
DEVICE float learned_reward(float reward, float scale, float limit) {
  return limit > 0 ? clip(scale * reward, limit) : scale * reward;
}

#endif
