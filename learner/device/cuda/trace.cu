/* Operation trace. It reads and writes a few numbers for each step, so that its latency counts, not
 * its bytes. */
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/rewards.h"
#include "learner/device/cuda/warps.h"

DEVICE float reward_after(const struct device_trace &v, int t, int n) {
  return learned_reward(v.reward[(size_t)(t + 1) * (size_t)v.N + (size_t)n], v.reward_scale,
                        v.reward_clip);
}

/* pi / mu; GAE has no ratios. */
DEVICE float ratio_at(const struct device_trace &v, size_t i) {
  return v.kind == TRACE_GAE ? 1 : expf(((const float *)v.log_prob)[i] - v.behaviour[i]);
}

DEVICE float clipped(const struct device_trace &v, float ratio, float limit) {
  return v.kind != TRACE_GAE && limit < ratio ? limit : ratio;
}

/* Into row i. */
DEVICE float discount_into(const struct device_trace &v, size_t i) {
  return !v.endless && v.flags[i] & STEP_TERMINATED ? 0 : v.discount;
}

/* ---- trace: a block has the sequences of a warp's lanes. Its warps compute what steps contribute,
 * TRACE_STEPS at a time from the last on; its first warp adds them up, which is the only part that
 * goes step by step; then its warps compute the advantages. */

enum { TRACE_STEPS = 64 };

/* Of the steps at hand, (TRACE_STEPS, WARP): delta, and the factor that the excess of the step
 * after it is multiplied by, -1 where the step is masked. Then, in place of delta, the excess
 * vs - V. */
struct trace_room {
  float delta[TRACE_STEPS][WARP], factor[TRACE_STEPS][WARP];
};

DEVICE void trace_deltas(struct trace_room &room, const struct device_trace &v, int first,
                         int count, int n) {
  const float *value = (const float *)v.value;
  int lane = lane_of_warp();
  for (int k = warp_of_block(); k < count; k += WARPS) {
    size_t i = (size_t)(first + k) * (size_t)v.N + (size_t)n, next = i + (size_t)v.N;
    float discount = discount_into(v, next), ratio = ratio_at(v, i);
    float error = reward_after(v, first + k, n) + discount * value[next] - value[i];
    bool masked = v.flags[i] & STEP_TRUNCATED;
    room.delta[k][lane] = clipped(v, ratio, v.rho_clip) * error;
    room.factor[k][lane] = masked ? -1 : discount * v.lambda * clipped(v, ratio, v.c_clip);
  }
}

/* excess: of the step after these; of the first of them in return. */
DEVICE float trace_scan(struct trace_room &room, int count, float excess) {
  int lane = lane_of_warp();
  for (int k = count - 1; k >= 0; k--) {
    float factor = room.factor[k][lane];
    excess = factor == -1 ? 0 : room.delta[k][lane] + factor * excess;
    room.delta[k][lane] = excess;
  }
  return excess;
}

/* after: the excess of the step after these. */
DEVICE void trace_advantages(float *vs, float *advantage, const struct trace_room &room,
                             const struct device_trace &v, int first, int count, int n,
                             float after) {
  const float *value = (const float *)v.value;
  int lane = lane_of_warp();
  for (int k = warp_of_block(); k < count; k += WARPS) {
    size_t i = (size_t)(first + k) * (size_t)v.N + (size_t)n, next = i + (size_t)v.N;
    float discount = discount_into(v, next), excess = room.delta[k][lane];
    float vs_next = value[next] + (k + 1 < count ? room.delta[k + 1][lane] : after);
    float gain = clipped(v, ratio_at(v, i), v.pg_rho_clip) *
                 (reward_after(v, first + k, n) + discount * vs_next - value[i]);
    vs[i] = value[i] + excess;
    advantage[i] = v.flags[i] & STEP_TRUNCATED ? 0 : v.kind == TRACE_GAE ? excess : gain;
  }
}

KERNEL trace(float *vs, float *advantage, struct device_trace v) {
  SHARED struct trace_room room;
  SHARED float after[WARP]; /* the excess of the step after those at hand */
  int lane = lane_of_warp(), n = (int)(blockIdx.x * WARP) + lane;
  bool here = n < v.N;
  float excess = 0; /* of the first warp */
  for (int end = v.T; end > 0; end -= TRACE_STEPS) {
    int first = end > TRACE_STEPS ? end - TRACE_STEPS : 0, count = end - first;
    if (here) trace_deltas(room, v, first, count, n);
    __syncthreads();
    if (here && warp_of_block() == 0) {
      after[lane] = excess;
      excess = trace_scan(room, count, excess);
    }
    __syncthreads();
    if (here) trace_advantages(vs, advantage, room, v, first, count, n, after[lane]);
    __syncthreads();
  }
}

void cuda_trace(struct device *d, real *vs, real *advantage, const struct device_trace *v) {
  struct cuda *cuda = cuda_of(d);
  unsigned blocks = (unsigned)((v->N + WARP - 1) / WARP);
  if (blocks > 0) LAUNCH(trace, blocks, BLOCK, cuda->stream, (float *)vs, (float *)advantage, *v);
}
