/* Choosing actions: operations random_uniforms, categorical_*, epsilon_greedy. A warp works on a
 * row, its lanes on the actions. */
#include "common/base/philox.h"
#include "learner/device/cuda/action_values.h"
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/warps.h"

/* ---- uniforms */

KERNEL random_uniforms(float *uniform, uint64_t seed, struct device_draws draws,
                       enum random_purpose purpose, int B) {
  for (size_t b = grid_first(); b < (size_t)B; b += grid_step())
    uniform[b] = draws.greedy[b] ? -1
                                 : philox_uniform(seed, draws.environment[b], draws.life[b],
                                                  draws.step[b], purpose);
}

void cuda_random_uniforms(struct device *d, float *uniform, uint64_t seed,
                          const struct device_draws *draws, enum random_purpose purpose, int B) {
  struct cuda *cuda = cuda_of(d);
  if (B == 0) return;
  LAUNCH(random_uniforms, blocks_for((size_t)B), BLOCK, cuda->stream, uniform, seed, *draws,
         purpose, B);
}

/* ---- softmax over the actions of a row */

/* Largest logit, sum of exp(logit - largest), and that sum's logarithm plus the largest. */
struct softmax {
  float largest, total, normaliser;
};

DEVICE struct softmax softmax_of(const float *logits, int A) {
  float largest = -INFINITY, total = 0;
  for (int a = lane_of_warp(); a < A; a += WARP) largest = fmaxf(largest, logits[a]);
  largest = warp_max(largest);
  for (int a = lane_of_warp(); a < A; a += WARP) total += expf(logits[a] - largest);
  total = warp_sum(total);
  return {largest, total, largest + logf(total)};
}

/* ---- sample */

/* The first of the largest logits. */
DEVICE int argmax(const float *logits, float largest, int A) {
  for (int start = 0; start < A; start += WARP) {
    int a = start + lane_of_warp();
    int first = warp_min_int(a < A && logits[a] == largest ? a : A);
    if (first < A) return first;
  }
  return 0;
}

/* The first action whose cumulative probability exceeds draw / total; never one of probability 0.
 * Rounding may leave the draw above all: then the last possible one. */
DEVICE int inverse_cdf(const float *logits, float largest, float draw, int A) {
  float below = 0;
  int last = A - 1;
  for (int start = 0; start < A; start += WARP) {
    int a = start + lane_of_warp();
    float e = a < A ? expf(logits[a] - largest) : 0;
    float cumulative = below + warp_sum_so_far(e);
    int first = warp_min_int(e > 0 && draw < cumulative ? a : A);
    if (first < A) return first;
    int possible = -warp_min_int(e > 0 ? -a : 1);
    if (possible >= 0) last = possible;
    below += warp_sum(e);
  }
  return last;
}

KERNEL categorical_sample(int32_t *action, float *log_prob, const float *logits, int stride,
                          const float *uniform, int B, int A) {
  size_t b = row_of_warp();
  if (b >= (size_t)B) return;
  const float *row = logits + b * (size_t)stride;
  struct softmax s = softmax_of(row, A);
  float u = uniform[b];
  int taken = u < 0 ? argmax(row, s.largest, A) : inverse_cdf(row, s.largest, u * s.total, A);
  if (lane_of_warp() > 0) return;
  action[b] = taken;
  log_prob[b] = row[taken] - s.normaliser;
}

void cuda_categorical_sample(struct device *d, int32_t *action, float *log_prob, const real *logits,
                             int stride, const float *uniform, int B, int A) {
  struct cuda *cuda = cuda_of(d);
  if (B == 0) return;
  LAUNCH(categorical_sample, blocks_of_rows((size_t)B), BLOCK, cuda->stream, action, log_prob,
         (const float *)logits, stride, uniform, B, A);
}

/* ---- evaluate and backward */

DEVICE float entropy_of(const float *logits, const struct softmax &s, int A) {
  float sum = 0;
  for (int a = lane_of_warp(); a < A; a += WARP) {
    float log_p = logits[a] - s.normaliser;
    sum += expf(log_p) * log_p;
  }
  return -warp_sum(sum);
}

KERNEL categorical_evaluate(float *log_prob, float *entropy, const float *logits, int stride,
                            const int32_t *action, int B, int A) {
  size_t b = row_of_warp();
  if (b >= (size_t)B) return;
  const float *row = logits + b * (size_t)stride;
  struct softmax s = softmax_of(row, A);
  float of_row = entropy_of(row, s, A);
  if (lane_of_warp() > 0) return;
  log_prob[b] = row[in_range(action[b], A)] - s.normaliser;
  entropy[b] = of_row;
}

void cuda_categorical_evaluate(struct device *d, real *log_prob, real *entropy, const real *logits,
                               int stride, const int32_t *action, int B, int A) {
  struct cuda *cuda = cuda_of(d);
  if (B == 0) return;
  LAUNCH(categorical_evaluate, blocks_of_rows((size_t)B), BLOCK, cuda->stream, (float *)log_prob,
         (float *)entropy, (const float *)logits, stride, action, B, A);
}

KERNEL categorical_backward(float *dlogits, int dstride, const float *logits, int stride,
                            const int32_t *action, const float *d_log_prob, const float *d_entropy,
                            int B, int A) {
  size_t b = row_of_warp();
  if (b >= (size_t)B) return;
  const float *row = logits + b * (size_t)stride;
  float *drow = dlogits + b * (size_t)dstride;
  struct softmax s = softmax_of(row, A);
  float entropy = entropy_of(row, s, A), of_action = d_log_prob[b], of_entropy = d_entropy[b];
  int taken = in_range(action[b], A);
  for (int a = lane_of_warp(); a < A; a += WARP) {
    float log_p = row[a] - s.normaliser, p = expf(log_p);
    drow[a] = of_action * ((a == taken ? 1.0f : 0.0f) - p) - of_entropy * p * (log_p + entropy);
  }
}

void cuda_categorical_backward(struct device *d, real *dlogits, int dstride, const real *logits,
                               int stride, const int32_t *action, const real *d_log_prob,
                               const real *d_entropy, int B, int A) {
  struct cuda *cuda = cuda_of(d);
  if (B == 0) return;
  LAUNCH(categorical_backward, blocks_of_rows((size_t)B), BLOCK, cuda->stream, (float *)dlogits,
         dstride, (const float *)logits, stride, action, (const float *)d_log_prob,
         (const float *)d_entropy, B, A);
}

/* ---- epsilon-greedy */

DEVICE int random_action(float uniform, float epsilon, int A) {
  int action = (int)(uniform / epsilon * (float)A);
  return action < A ? action : A - 1;
}

KERNEL epsilon_greedy(int32_t *action, float *statistics, const float *heads, int stride,
                      struct device_action_values values, const float *uniform,
                      const float *epsilon, int B) {
  DYNAMIC_SHARED(float, offsets); /* (WARPS, Z) */
  size_t b = row_of_warp();
  if (b >= (size_t)B) return;
  struct head head =
      head_of(values, heads + b * (size_t)stride, numbers_of_warp(offsets, values.Z));
  struct best best = best_action(values, head);
  float u = uniform[b], e = epsilon[b];
  int taken = u >= 0 && u < e ? random_action(u, e, values.A) : best.action;
  float value = action_value(values, head, taken);
  if (lane_of_warp() > 0) return;
  action[b] = taken;
  statistics[2 * b] = value;
  statistics[2 * b + 1] = best.value;
}

void cuda_epsilon_greedy(struct device *d, int32_t *action, float *statistics, const real *head,
                         int stride, const struct device_action_values *values,
                         const float *uniform, const float *epsilon, int B) {
  struct cuda *cuda = cuda_of(d);
  if (B == 0) return;
  LAUNCH_SHARED(epsilon_greedy, blocks_of_rows((size_t)B), BLOCK, warps_bytes(WARPS, values->Z),
                cuda->stream, action, statistics, (const float *)head, stride, *values, uniform,
                epsilon, B);
}
