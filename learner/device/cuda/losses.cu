/* Traces and actor-critic losses: operations trace and actor_critic_loss. Both read and write a few
 * numbers for each step, so that their latency counts, not their bytes. */
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
  return v.kind == TRACE_GAE || ratio < limit ? ratio : limit;
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
    float discount = v.flags[next] & STEP_TERMINATED ? 0 : v.discount, ratio = ratio_at(v, i);
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
    float discount = v.flags[next] & STEP_TERMINATED ? 0 : v.discount, excess = room.delta[k][lane];
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

/* ---- actor_critic_loss: the blocks' sums; then the gradients, whose scale needs the count */

enum { LOSS_BLOCKS = 128 };

struct loss_arrays {
  float *d_log_prob, *d_entropy, *d_value;
  const float *vs, *advantage, *entropy;
};

/* What step i adds to the sums. */
DEVICE void add_step(float sums[ACTOR_CRITIC_SUMS], const struct device_trace &v,
                     const struct loss_arrays &a, size_t i) {
  float log_prob = ((const float *)v.log_prob)[i], value = ((const float *)v.value)[i],
        error = a.vs[i] - value, reward = v.reward[i + (size_t)v.N];
  sums[SUM_STEPS] += 1;
  sums[SUM_POLICY_LOSS] -= log_prob * a.advantage[i];
  sums[SUM_BASELINE_LOSS] += 0.5f * error * error;
  sums[SUM_ENTROPY] += a.entropy[i];
  sums[SUM_KL] += v.behaviour[i] - log_prob;
  sums[SUM_VALUE] += value;
  sums[SUM_REWARD] += learned_reward(reward, v.reward_scale, v.reward_clip);
  sums[SUM_RHO_CLIPPED] += v.kind == TRACE_VTRACE && ratio_at(v, i) > CLIPPED_FROM * v.rho_clip;
  sums[SUM_TARGET] += a.vs[i];
  sums[SUM_TARGET_SQUARED] += a.vs[i] * a.vs[i];
}

/* part (ACTOR_CRITIC_SUMS, blocks). */
KERNEL loss_sums(float *part, struct device_trace v, struct loss_arrays a, size_t steps) {
  float sums[ACTOR_CRITIC_SUMS] = {};
  for (size_t i = grid_first(); i < steps; i += grid_step())
    if (!(v.flags[i] & STEP_TRUNCATED)) add_step(sums, v, a, i);
  UNROLL
  for (int k = 0; k < ACTOR_CRITIC_SUMS; k++) {
    float sum = block_sum(sums[k]);
    if (threadIdx.x == 0) part[(size_t)k * gridDim.x + blockIdx.x] = sum;
  }
}

/* The sum of row k of part (k, gridDim.x), by a warp. */
DEVICE float sum_of_parts(const float *part, int k) {
  float sum = 0;
  for (unsigned i = threadIdx.x % WARP; i < gridDim.x; i += WARP)
    sum += part[(size_t)k * gridDim.x + i];
  return warp_sum(sum);
}

/* As many blocks as loss_sums had; the first also adds up the sums, a warp each. */
KERNEL loss_gradients(float *sums, const float *part, struct device_trace v, struct loss_arrays a,
                      const struct device_schedule *schedule, float baseline_cost, float kl_cost,
                      size_t steps) {
  for (int k = warp_of_block(); blockIdx.x == 0 && k < ACTOR_CRITIC_SUMS; k += WARPS) {
    float sum = sum_of_parts(part, k);
    if (lane_of_warp() == 0) sums[k] = sum;
  }
  float count = sum_of_parts(part, SUM_STEPS), entropy_cost = schedule->entropy_cost;
  float scale = v.reduction == LOSS_SUM_OVER_TIME ? 1 / (float)v.N : count > 0 ? 1 / count : 0;
  const float *value = (const float *)v.value;
  for (size_t i = grid_first(); i < steps; i += grid_step()) {
    bool on = !(v.flags[i] & STEP_TRUNCATED);
    a.d_log_prob[i] = on ? scale * (-a.advantage[i] - kl_cost) : 0;
    a.d_entropy[i] = on ? -scale * entropy_cost : 0;
    a.d_value[i] = on ? scale * baseline_cost * (value[i] - a.vs[i]) : 0;
  }
}

void cuda_actor_critic_loss(struct device *d, real *d_log_prob, real *d_entropy, real *d_value,
                            real *sums, const struct device_trace *v, const real *vs,
                            const real *advantage, const real *entropy,
                            const struct device_schedule *schedule, float baseline_cost,
                            float kl_cost) {
  struct cuda *cuda = cuda_of(d);
  struct loss_arrays a = {(float *)d_log_prob, (float *)d_entropy,       (float *)d_value,
                          (const float *)vs,   (const float *)advantage, (const float *)entropy};
  size_t steps = (size_t)v->T * (size_t)v->N;
  unsigned blocks = blocks_for(steps, BLOCK, LOSS_BLOCKS);
  float *part = (float *)cuda_scratch(cuda, ACTOR_CRITIC_SUMS * LOSS_BLOCKS * sizeof *part);
  LAUNCH(loss_sums, blocks, BLOCK, cuda->stream, part, *v, a, steps);
  LAUNCH(loss_gradients, blocks, BLOCK, cuda->stream, (float *)sums, part, *v, a, schedule,
         baseline_cost, kl_cost, steps);
}
