/* Operation random_uniforms. */
#include "common/base/philox.h"
#include "learner/device/cuda/cuda.h"

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
