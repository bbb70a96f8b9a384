/* Action values of a head's row, computed by a warp: what choice.cu and q_loss.cu share. All lanes
 * of the warp call these functions together and get the same results, unless a comment says that a
 * lane gets its own.
 * Upstream: learner/device/cuda/choice.cu, learner/device/cuda/q_loss.cu. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_ACTION_VALUES_H
#define ACORN_LEARNER_DEVICE_CUDA_ACTION_VALUES_H

#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/warps.h"

/* A row, and what is added to its advantages: value - mean of the advantages if it is dueling, 0
 * otherwise. */
struct head {
  const float *row;
  float offset;   /* Z = 1 */
  float *offsets; /* (Z), Z > 1: in shared memory; each lane reads those that it wrote: its atoms
                     are lane, lane + WARP, ... */
};

/* Of atom z. */
DEVICE float offset_at(const struct device_action_values &v, const float *row, int z) {
  float sum = 0;
  for (int a = 0; a < v.A; a++) sum += row[a * v.Z + z];
  return row[v.A * v.Z + z] - sum / (float)v.A;
}

/* offsets: room for (Z) if Z > 1; the head before with the same room is then no longer valid. */
DEVICE struct head head_of(const struct device_action_values &v, const float *row, float *offsets) {
  struct head head = {row, 0, offsets};
  if (v.Z > 1) {
    for (int z = lane_of_warp(); z < v.Z; z += WARP)
      offsets[z] = v.dueling ? offset_at(v, row, z) : 0;
  } else if (v.dueling) {
    float sum = 0;
    for (int a = lane_of_warp(); a < v.A; a += WARP) sum += row[a];
    head.offset = row[v.A] - warp_sum(sum) / (float)v.A;
  }
  return head;
}

/* Logit z of an action's distribution: for the lane that has atom z. */
DEVICE float logit_at(const struct device_action_values &v, const struct head &head, int action,
                      int z) {
  return head.row[action * v.Z + z] + head.offsets[z];
}

DEVICE float atom_at(const struct device_action_values &v, int z) {
  return v.low + (v.high - v.low) * (float)z / (float)(v.Z - 1);
}

/* Of an action's logits: the largest, the sum of exp(logit - largest), and the logarithm of all
 * exponentials' sum. */
struct head_softmax {
  float largest, total, normaliser;
};

DEVICE struct head_softmax softmax_along(const struct device_action_values &v,
                                         const struct head &head, int action) {
  float largest = -INFINITY, total = 0;
  for (int z = lane_of_warp(); z < v.Z; z += WARP)
    largest = fmaxf(largest, logit_at(v, head, action, z));
  largest = warp_max(largest);
  for (int z = lane_of_warp(); z < v.Z; z += WARP)
    total += expf(logit_at(v, head, action, z) - largest);
  total = warp_sum(total);
  return {largest, total, largest + logf(total)};
}

DEVICE float mean_along(const struct device_action_values &v, const struct head &head, int action) {
  struct head_softmax softmax = softmax_along(v, head, action);
  float sum = 0;
  for (int z = lane_of_warp(); z < v.Z; z += WARP)
    sum += expf(logit_at(v, head, action, z) - softmax.largest) * atom_at(v, z);
  return warp_sum(sum) / softmax.total;
}

DEVICE float action_value(const struct device_action_values &v, const struct head &head,
                          int action) {
  return v.Z > 1 ? mean_along(v, head, action) : head.row[action] + head.offset;
}

/* The largest value of a row and its action, the first of equals; NaN if one of the values is. */
struct best {
  float value;
  int action;
};

/* Of two, which may come in any order. */
DEVICE struct best better(struct best x, struct best y) {
  bool x_nan = x.value != x.value, y_nan = y.value != y.value;
  if (x_nan != y_nan) return x_nan ? x : y;
  if (x_nan) return x.action > y.action ? x : y;
  if (x.value == y.value) return x.action < y.action ? x : y;
  return x.value > y.value ? x : y;
}

DEVICE struct best best_action(const struct device_action_values &v, const struct head &head) {
  struct best best = {-INFINITY, v.A};
  if (v.Z > 1) {
    for (int a = 0; a < v.A; a++) best = better(best, {mean_along(v, head, a), a});
    return best;
  }
  for (int a = lane_of_warp(); a < v.A; a += WARP)
    best = better(best, {action_value(v, head, a), a});
  for (int lane = WARP / 2; lane > 0; lane /= 2)
    best = better(best, {__shfl_xor_sync(ALL_LANES, best.value, lane),
                         __shfl_xor_sync(ALL_LANES, best.action, lane)});
  return best;
}

/* This warp's numbers of them. */
DEVICE float *numbers_of_warp(float *shared, int numbers) {
  return shared + (threadIdx.x / WARP) * (unsigned)numbers;
}

/* Shared memory of a block of `warps` warps with `numbers` floats each, for LAUNCH_SHARED. A kernel
 * has 48 KiB, of which some are for its sums. */
static inline size_t warps_bytes(int warps, int numbers) {
  size_t bytes = (size_t)warps * (size_t)numbers * sizeof(float);
  CHECK(bytes <= 47 << 10, "%d numbers for each of %d warps are more than shared memory has",
        numbers, warps);
  return bytes;
}

#endif
