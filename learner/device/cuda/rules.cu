/* Rules: operation run_rule. Both kernels read a few numbers for each step, so that their latency
 * counts, not their bytes. */
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/warps.h"

typedef float num;
#define RULE_FUNCTION DEVICE
#define num_of(x) ((float)(x))
#define num_exp(x) expf(x)
#define num_min(a, b) ((a) < (b) ? (a) : (b))
#define num_max(a, b) ((a) > (b) ? (a) : (b))
#define num_where_less(a, b, x, y) ((a) < (b) ? (x) : (y))
#include "learner/rules/bodies.inc"

enum { RULE_BLOCKS = 128 };

/* The sum of row k of part (k, gridDim.x), by a warp. */
DEVICE float sum_of_parts(const float *part, int k) {
  float sum = 0;
  for (unsigned i = threadIdx.x % WARP; i < gridDim.x; i += WARP)
    sum += part[(size_t)k * gridDim.x + i];
  return warp_sum(sum);
}

/* By the first block, a warp each. */
DEVICE void write_sums(float *sums, const float *part, int num_sums) {
  for (int k = warp_of_block(); blockIdx.x == 0 && k < num_sums; k += WARPS) {
    float sum = sum_of_parts(part, k);
    if (lane_of_warp() == 0) sums[k] = sum;
  }
}

DEVICE float scale_of(const struct device_rule &rule, const float *part) {
  float count = sum_of_parts(part, SUM_STEPS);
  return rule.reduction == LOSS_SUM_OVER_TIME ? 1 / (float)rule.N : count > 0 ? 1 / count : 0;
}

#define LOAD(NUMBER, member, TYPE) x.member = ((const float *)rule.in[NUMBER])[i];
#define STORE(NUMBER, member) ((float *)rule.out[NUMBER])[i] = x.member;
#define ADD_UP(NUMBER, member) sums[NUMBER] += x.member;
#define CONSTANT(NUMBER, member) x.member = rule.constant[NUMBER];

/* The blocks' sums: part (sums, blocks). Then the outputs, whose scale needs the count: as many
 * blocks. */
#define KERNELS(name)                                                                           \
  DEVICE void load_##name(struct name##_numbers &x, const struct device_rule &rule, size_t i) { \
    x.entropy_cost = rule.schedule->entropy_cost;                                               \
    CONSTANTS_OF_##name(CONSTANT) INPUTS_OF_##name(LOAD)                                        \
  }                                                                                             \
  KERNEL sums_of_##name(float *part, struct device_rule rule) {                                 \
    float sums[num_sums_of_##name] = {};                                                        \
    struct name##_numbers x;                                                                    \
    for (size_t i = grid_first(); i < rule.rows; i += grid_step()) {                            \
      if (rule.flags[i] & STEP_TRUNCATED) continue;                                             \
      load_##name(x, rule, i);                                                                  \
      x.scale = 0;                                                                              \
      name##_rule(&x);                                                                          \
      sums[SUM_STEPS] += 1;                                                                     \
      SUMS_OF_##name(ADD_UP)                                                                    \
    }                                                                                           \
    UNROLL                                                                                      \
    for (int k = 0; k < num_sums_of_##name; k++) {                                              \
      float sum = block_sum(sums[k]);                                                           \
      if (threadIdx.x == 0) part[(size_t)k * gridDim.x + blockIdx.x] = sum;                     \
    }                                                                                           \
  }                                                                                             \
  KERNEL outputs_of_##name(const float *part, struct device_rule rule) {                        \
    write_sums((float *)rule.sums, part, num_sums_of_##name);                                   \
    float scale = scale_of(rule, part);                                                         \
    struct name##_numbers x;                                                                    \
    for (size_t i = grid_first(); i < rule.rows; i += grid_step()) {                            \
      load_##name(x, rule, i);                                                                  \
      x.scale = rule.flags[i] & STEP_TRUNCATED ? 0 : scale;                                     \
      name##_rule(&x);                                                                          \
      OUTPUTS_OF_##name(STORE)                                                                  \
    }                                                                                           \
  }                                                                                             \
  static void run_##name(struct cuda *cuda, const struct device_rule *rule) {                   \
    unsigned blocks = blocks_for(rule->rows, BLOCK, RULE_BLOCKS);                               \
    float *part = (float *)cuda_scratch(cuda, num_sums_of_##name * RULE_BLOCKS * sizeof *part); \
    LAUNCH(sums_of_##name, blocks, BLOCK, cuda->stream, part, *rule);                           \
    LAUNCH(outputs_of_##name, blocks, BLOCK, cuda->stream, part, *rule);                        \
  }
RULES(KERNELS)

void cuda_run_rule(struct device *d, enum rule which, const struct device_rule *rule) {
#define ROW(name) run_##name,
  static void (*const run[])(struct cuda *, const struct device_rule *) = {RULES(ROW)};
#undef ROW
  run[which](cuda_of(d), rule);
}
