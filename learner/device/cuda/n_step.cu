/* Operation n_step: a thread a step. */
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/rewards.h"

KERNEL n_step_returns(float *returned, float *discounts, int32_t *from, struct device_n_step n) {
  const float *value = (const float *)n.value;
  size_t steps = (size_t)n.T * (size_t)n.N;
  for (size_t i = grid_first(); i < steps; i += grid_step()) {
    int t = (int)(i / (size_t)n.N), end = n.n_steps < n.T - t ? t + n.n_steps : n.T;
    float reward = 0, discount = 1;
    size_t row = i;
    while (t++ < end) {
      row += (size_t)n.N;
      uint8_t flags = n.flags[row];
      reward += discount * learned_reward(n.reward[row], n.reward_scale, n.reward_clip);
      discount *= flags & STEP_TERMINATED ? 0 : n.discount;
      if (flags & (STEP_TERMINATED | STEP_TRUNCATED)) break;
    }
    returned[i] = discount == 0 ? reward : reward + discount * value[row];
    if (discounts) discounts[i] = discount;
    if (from) from[i] = (int32_t)row;
  }
}

void cuda_n_step(struct device *d, real *returned, real *discounts, int32_t *from,
                 const struct device_n_step *n) {
  LAUNCH(n_step_returns, blocks_for((size_t)n->T * (size_t)n->N), BLOCK, cuda_of(d)->stream,
         (float *)returned, (float *)discounts, from, *n);
}
