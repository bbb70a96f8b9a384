#include "common/base/random.h"

#include "common/base/philox.h"

void random_philox4x32(uint32_t out[4], const uint32_t counter[4], uint64_t key) {
  philox4x32(out, counter, key);
}

uint64_t random_bits(uint64_t seed, uint32_t environment, uint32_t life, uint32_t step,
                     enum random_purpose purpose) {
  return philox_bits(seed, environment, life, step, purpose);
}

float random_uniform(uint64_t seed, uint32_t environment, uint32_t life, uint32_t step,
                     enum random_purpose purpose) {
  return philox_uniform(seed, environment, life, step, purpose);
}

double random_normal(uint64_t seed, uint32_t stream, uint32_t i, enum random_purpose purpose) {
  return philox_normal(seed, stream, i, purpose);
}
