#include "common/base/step.h"

#include <stdint.h>
#include <string.h>

// Nearly always there is none: the bits are looked at in blocks without a branch. Without its sign,
// a larger number has larger bits, and NaN has the largest.
size_t step_first_wild(const void *floats, size_t count) {
  typedef int32_t lanes __attribute__((vector_size(16)));
  const uint8_t *bytes = floats;
  const float limit = STEP_MAX_NUMBER;
  int32_t limit_bits;
  memcpy(&limit_bits, &limit, sizeof limit);
  lanes bad = {0};
  size_t at = 0;
  for (; at + 4 <= count; at += 4) {
    lanes bits;
    memcpy(&bits, bytes + 4 * at, sizeof bits);
    bad |= (bits & 0x7fffffff) > limit_bits;
  }
  if (bad[0] | bad[1] | bad[2] | bad[3]) at = 0;
  for (; at < count; at++) {
    float x;
    memcpy(&x, bytes + 4 * at, sizeof x);
    if (step_is_wild(x)) break;
  }
  return at;
}
