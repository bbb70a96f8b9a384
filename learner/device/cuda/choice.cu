/* Choosing actions: operations random_uniforms and epsilon_greedy. In the second a warp works on
 * a row, its lanes on the actions. */
#include "common/base/philox.h"
#include "learner/device/cuda/action_values.h"
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/warps.h"

/* ---- uniforms */

KERNEL random_uniforms(float *uniform, uint64_t seed, struct device_draws draws,
                       enum random_purpose purpose, int B) {
  for (size_t i = grid_first(); i < (size_t)B * (size_t)draws.count; i += grid_step()) {
    size_t b = i / (size_t)draws.count;
    int k = (int)(i % (size_t)draws.count);
    uniform[i] = draws.greedy[b] ? -1
                                 : philox_uniform(seed, draws.environment[b], draws.life[b],
                                                  draws.step[b], philox_purpose(purpose, k));
  }
}

void cuda_random_uniforms(struct device *d, float *uniform, uint64_t seed,
                          const struct device_draws *draws, enum random_purpose purpose, int B) {
  struct cuda *cuda = cuda_of(d);
  if (B == 0) return;
  LAUNCH(random_uniforms, blocks_for((size_t)B * (size_t)draws->count), BLOCK, cuda->stream,
         uniform, seed, *draws, purpose, B);
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
