/* Optimisers: operations global_norm, require_finite, adam, rmsprop. All parameters in one launch;
 * whether the norm is finite, the learning rate and the step are read from device memory, so that
 * an update can be captured once and run again. Memory bounds them: Adam reads 16 bytes of each
 * parameter and writes 12, as does RMSProp; the norm reads 4. */
#include <float.h>

#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/wide.h"

/* ---- norm: the sums of blocks, then their sum, by the last block. In double, as squares of floats
 * overflow them */

enum { NORM_BLOCKS = 512 };

DEVICE double warp_sum_double(double x) {
  for (int lane = WARP / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(ALL_LANES, x, lane);
  return x;
}

DEVICE double block_sum_double(double x) {
  SHARED double part[WARP];
  x = warp_sum_double(x);
  if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = x;
  __syncthreads();
  return warp_sum_double(threadIdx.x % WARP < blockDim.x / WARP ? part[threadIdx.x % WARP] : 0);
}

template <int V>
DEVICE double squares_at(const float *g, size_t i) {
  pack<float, V> x = load_pack<float, V>(g + i);
  double sum = 0;
  UNROLL
  for (int k = 0; k < V; k++) sum += (double)x.at[k] * (double)x.at[k];
  return sum;
}

/* part: one for each block. */
template <int V>
KERNEL norm_of(float *norm, double *part, unsigned *arrived, const float *g, size_t P) {
  size_t first = grid_first(), step = grid_step(), packs = P / V;
  double sum = 0;
  for (size_t i = first; i < packs; i += step) sum += squares_at<V>(g, i * V);
  for (size_t i = packs * V + first; i < P; i += step) sum += squares_at<1>(g, i);
  sum = block_sum_double(sum);
  if (threadIdx.x == 0) part[blockIdx.x] = sum;
  if (!is_last_block(arrived)) return;
  sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += part[i];
  sum = block_sum_double(sum);
  if (threadIdx.x == 0) *norm = (float)sqrt(sum);
}

void cuda_global_norm(struct device *d, real *norm, const real *g, size_t P) {
  struct cuda *cuda = cuda_of(d);
  bool aligned = is_aligned(g);
  unsigned blocks = blocks_for(aligned ? P / 4 : P, BLOCK, NORM_BLOCKS);
  double *part = (double *)cuda_scratch(cuda, NORM_BLOCKS * sizeof *part);
  if (aligned)
    LAUNCH(norm_of<4>, blocks, BLOCK, cuda->stream, (float *)norm, part, cuda->arrived,
           (const float *)g, P);
  else
    LAUNCH(norm_of<1>, blocks, BLOCK, cuda->stream, (float *)norm, part, cuda->arrived,
           (const float *)g, P);
}

DEVICE bool is_finite(float x) {
  return fabsf(x) <= FLT_MAX;
}

/* One block: n is a number of sums. */
KERNEL require_finite(float *norm, const float *x, size_t n, float *failed) {
  bool is_bad = failed && !is_finite(*failed);
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) is_bad = is_bad || !is_finite(x[i]);
  bool any_is = __syncthreads_or(is_bad);
  if (threadIdx.x != 0) return;
  if (any_is) *norm = NAN;
  if (failed && !is_finite(*norm)) *failed = NAN;
}

void cuda_require_finite(struct device *d, real *norm, const real *x, size_t n, real *failed) {
  struct cuda *cuda = cuda_of(d);
  LAUNCH(require_finite, 1, BLOCK, cuda->stream, (float *)norm, (const float *)x, n,
         (float *)failed);
}

/* ---- what optimisers share */

/* What every gradient is multiplied by before the optimiser sees it. */
DEVICE float clip_scale(float norm, float max_norm) {
  return max_norm > 0 && norm > max_norm ? max_norm / norm : 1;
}

/* x^n in a few products: pow would cost every block more than its memory does. */
DEVICE double power(double x, int64_t n) {
  double result = 1;
  for (uint64_t left = (uint64_t)n; left > 0; left >>= 1, x *= x)
    if (left & 1) result *= x;
  return result;
}

/* The parameter and the two numbers of state that go with each gradient. */
struct optimised {
  float *p, *first, *second;
  const float *g;
  size_t P;
};

static bool are_aligned(const struct optimised &o) {
  return is_aligned(o.p) && is_aligned(o.first) && is_aligned(o.second) && is_aligned(o.g);
}

/* V parameters at i, by update(step, parameter, first, second, gradient). */
template <int V, typename Step>
DEVICE void update_at(const struct optimised &o, size_t i, const Step &step) {
  pack<float, V> p = load_pack<float, V>(o.p + i), first = load_pack<float, V>(o.first + i),
                 second = load_pack<float, V>(o.second + i), g = load_pack<float, V>(o.g + i);
  UNROLL
  for (int k = 0; k < V; k++) update(step, p.at[k], first.at[k], second.at[k], g.at[k]);
  store_pack(o.p + i, p);
  store_pack(o.first + i, first);
  store_pack(o.second + i, second);
}

template <int V, typename Step>
DEVICE void update_all(const struct optimised &o, const Step &step) {
  size_t first = grid_first(), stride = grid_step(), packs = o.P / V;
  for (size_t i = first; i < packs; i += stride) update_at<V>(o, i * V, step);
  for (size_t i = packs * V + first; i < o.P; i += stride) update_at<1>(o, i, step);
}

/* ---- Adam */

struct adam_settings {
  float max_norm, beta1, beta2, epsilon;
  bool epsilon_hat;
};

/* Of one step: the gradient's scale, learning rate / (1 - beta1^step), 1 / (1 - beta2^step), and
 * what is added to the root. */
struct adam_step {
  float scale, rate, unbias, add, beta1, beta2;
};

DEVICE void update(const struct adam_step &s, float &p, float &m, float &v, float g) {
  g *= s.scale;
  m = s.beta1 * m + (1 - s.beta1) * g;
  v = s.beta2 * v + (1 - s.beta2) * g * g;
  p -= s.rate * m / (sqrtf(v * s.unbias) + s.add);
}

DEVICE struct adam_step adam_step_of(const struct adam_settings &a, float norm,
                                     const struct device_schedule &schedule) {
  double of_first = 1 - power((double)a.beta1, schedule.step),
         of_second = 1 - power((double)a.beta2, schedule.step);
  float unbias = (float)(1 / of_second);
  return {clip_scale(norm, a.max_norm),
          (float)((double)schedule.learning_rate / of_first),
          unbias,
          a.epsilon_hat ? a.epsilon * sqrtf(unbias) : a.epsilon,
          a.beta1,
          a.beta2};
}

template <int V>
KERNEL adam(struct optimised o, const float *norm, const struct device_schedule *schedule,
            struct adam_settings settings) {
  SHARED float shared[4];
  if (!is_finite(*norm)) return;
  if (threadIdx.x == 0) {
    struct adam_step step = adam_step_of(settings, *norm, *schedule);
    shared[0] = step.scale, shared[1] = step.rate, shared[2] = step.unbias, shared[3] = step.add;
  }
  __syncthreads();
  update_all<V>(
      o, adam_step{shared[0], shared[1], shared[2], shared[3], settings.beta1, settings.beta2});
}

void cuda_adam(struct device *d, real *p, real *m, real *v, const real *g, const real *norm,
               const struct device_schedule *schedule, float max_norm, float beta1, float beta2,
               float epsilon, bool epsilon_hat, size_t P) {
  struct cuda *cuda = cuda_of(d);
  struct optimised o = {(float *)p, (float *)m, (float *)v, (const float *)g, P};
  struct adam_settings settings = {max_norm, beta1, beta2, epsilon, epsilon_hat};
  if (are_aligned(o))
    LAUNCH(adam<4>, blocks_for(P / 4), BLOCK, cuda->stream, o, (const float *)norm, schedule,
           settings);
  else
    LAUNCH(adam<1>, blocks_for(P), BLOCK, cuda->stream, o, (const float *)norm, schedule, settings);
}

/* ---- RMSProp */

struct rmsprop_settings {
  float max_norm, decay, momentum, epsilon;
};

struct rmsprop_step {
  struct rmsprop_settings settings;
  float scale, rate;
};

DEVICE void update(const struct rmsprop_step &s, float &p, float &ms, float &mom, float g) {
  g *= s.scale;
  ms = s.settings.decay * ms + (1 - s.settings.decay) * g * g;
  mom = s.settings.momentum * mom + s.rate * g / sqrtf(ms + s.settings.epsilon);
  p -= mom;
}

template <int V>
KERNEL rmsprop(struct optimised o, const float *norm, const struct device_schedule *schedule,
               struct rmsprop_settings settings) {
  if (!is_finite(*norm)) return;
  float scale = clip_scale(*norm, settings.max_norm);
  update_all<V>(o, rmsprop_step{settings, scale, schedule->learning_rate});
}

void cuda_rmsprop(struct device *d, real *p, real *ms, real *mom, const real *g, const real *norm,
                  const struct device_schedule *schedule, float max_norm, float decay,
                  float momentum, float epsilon, size_t P) {
  struct cuda *cuda = cuda_of(d);
  struct optimised o = {(float *)p, (float *)ms, (float *)mom, (const float *)g, P};
  struct rmsprop_settings settings = {max_norm, decay, momentum, epsilon};
  if (are_aligned(o))
    LAUNCH(rmsprop<4>, blocks_for(P / 4), BLOCK, cuda->stream, o, (const float *)norm, schedule,
           settings);
  else
    LAUNCH(rmsprop<1>, blocks_for(P), BLOCK, cuda->stream, o, (const float *)norm, schedule,
           settings);
}
