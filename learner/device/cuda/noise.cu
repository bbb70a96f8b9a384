/* Noisy layers: operations factor_noise, noisy_forward, noisy_backward. */
#include "common/base/philox.h"
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/weights.h"
#include "learner/device/cuda/wide.h"

KERNEL factor_noise(float *noise, uint64_t seed, uint32_t stream, uint32_t first, int n) {
  for (size_t i = grid_first(); i < (size_t)n; i += grid_step()) {
    float x = (float)philox_normal(seed, stream, first + (uint32_t)i, RANDOM_NOISE);
    noise[i] = copysignf(sqrtf(fabsf(x)), x);
  }
}

void cuda_factor_noise(struct device *d, real *noise, uint64_t seed, uint32_t stream,
                       uint32_t first, int n) {
  struct cuda *cuda = cuda_of(d);
  if (n == 0) return;
  LAUNCH(factor_noise, blocks_for((size_t)n), BLOCK, cuda->stream, (float *)noise, seed, stream,
         first, n);
}

/* y (I, O) = mean + x * in (I) out (O), V numbers of a row at a time; mean NULL: 0, in NULL: 1.
 * Memory bounds it: 8 or 12 bytes for each number. */
template <int V>
KERNEL noisy(float *__restrict__ y, const float *__restrict__ mean, const float *__restrict__ x,
             const float *__restrict__ in, const float *__restrict__ out, size_t count,
             unsigned O) {
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    struct quotient at = divide(i, O / V);
    pack<float, V> factor = load_pack<float, V>(x + i * V), sum = {},
                   noise = load_pack<float, V>(out + (size_t)at.rest * V);
    if (mean) sum = load_pack<float, V>(mean + i * V);
    float of_input = in ? in[at.whole] : 1;
    UNROLL
    for (int k = 0; k < V; k++) sum.at[k] += factor.at[k] * (of_input * noise.at[k]);
    store_pack(y + i * V, sum);
  }
}

static void launch_noisy(struct device *d, float *y, const float *mean, const float *x,
                         const float *in, const float *out, int I, int O) {
  struct cuda *cuda = cuda_of(d);
  size_t count = (size_t)I * (size_t)O;
  if (count == 0) return;
  if (O % 4 == 0 && is_aligned(y) && is_aligned(mean) && is_aligned(x) && is_aligned(out))
    LAUNCH(noisy<4>, blocks_for(count / 4), BLOCK, cuda->stream, y, mean, x, in, out, count / 4,
           (unsigned)O);
  else
    LAUNCH(noisy<1>, blocks_for(count), BLOCK, cuda->stream, y, mean, x, in, out, count,
           (unsigned)O);
}

void cuda_noisy_forward(struct device *d, real *y, const real *mean, const real *deviation,
                        const real *in, const real *out, int I, int O) {
  launch_noisy(d, (float *)y, (const float *)mean, (const float *)deviation, (const float *)in,
               (const float *)out, I, O);
  cuda_weights_written(cuda_of(d), (const float *)y);
}

void cuda_noisy_backward(struct device *d, real *d_deviation, const real *dy, const real *in,
                         const real *out, int I, int O) {
  launch_noisy(d, (float *)d_deviation, nullptr, (const float *)dy, (const float *)in,
               (const float *)out, I, O);
}
