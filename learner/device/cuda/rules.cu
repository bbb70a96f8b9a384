/* Rules: operation run_rule. The kernels read a few numbers for each step, so that their latency
 * counts, not their bytes. */
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/warps.h"
#include "learner/device/cuda/wide.h"

typedef float num;
struct row_in {
  const float *x;
  int step;
};
struct row_out {
  float *x;
  int step;
};
typedef const float *floats_in;
typedef float *floats_out;
typedef const int32_t *chosen_in;
typedef int32_t *chosen_out;
#define RULE_FUNCTION DEVICE
#define num_of(x) ((float)(x))
#define num_exp(x) expf(x)
#define num_log(x) logf(x)
#define num_sqrt(x) sqrtf(x)
#define num_abs(x) fabsf(x)
#define num_float(x) (x)
#define num_floor(x) floorf(x)
#define num_min(a, b) ((a) < (b) ? (a) : (b))
#define num_max(a, b) ((a) > (b) ? (a) : (b))
#define num_where_less(a, b, x, y) ((a) < (b) ? (x) : (y))
#define num_where_equal(a, b, x, y) ((a) == (b) ? (x) : (y))
#define ROW_EACH(a) for (int a = lane_of_warp(); a < A; a += WARP)
#define ROW_IN_ORDER(a) for (int a = lane_of_warp(); a - lane_of_warp() < A; a += WARP)
#define row_sum(x) warp_sum(x)
#define row_min(x) (-warp_max(-(x)))
#define row_max(x) warp_max(x)
#define row_so_far(a, before, x) row_sum_so_far(before, x)
#define row_number(row, a) ((row).x[(size_t)(a) * (size_t)(row).step])
#define row_at(row, a) ((a) < A ? row_number(row, a) : -INFINITY)
#define row_put(row, a, number) (row_number(row, a) = (number))
#define floats_at(floats, a) ((floats)[a])
#define floats_put(floats, a, x) ((floats)[a] = (x))
#define row_pick(row, a, A) row_number(row, (int)(a))
#define num_index(a) ((float)(a))
#define row_in_from(row, first)         \
  row_in {                              \
    &row_number(row, first), (row).step \
  }
#define row_out_from(row, first)        \
  row_out {                             \
    &row_number(row, first), (row).step \
  }
#define draws_at(draws, c) floats_at(draws, c)
#define chosen_at(chosen, c) ((float)(chosen)[c])
#define chosen_put(chosen, c, a) \
  if (lane_of_warp() == 0) (chosen)[c] = (int32_t)(a)

/* The sum of x of the lanes up to this one, and of what lanes had before. */
DEVICE float row_sum_so_far(float &before, float x) {
  float sum = before + warp_sum_so_far(x);
  before += warp_sum(x);
  return sum;
}

#include "learner/rules/bodies.inc"

enum { RULE_BLOCKS = 128 };

/* The sum of row k of part (k, gridDim.x), by a warp. */
DEVICE float sum_of_parts(const float *part, int k) {
  float sum = 0;
  for (unsigned i = threadIdx.x % WARP; i < gridDim.x; i += WARP)
    sum += part[(size_t)k * gridDim.x + i];
  return warp_sum(sum);
}

/* By one block, a warp each. */
DEVICE void write_sums(float *sums, const float *part, int num_sums) {
  for (int k = warp_of_block(); k < num_sums; k += WARPS) {
    float sum = sum_of_parts(part, k);
    if (lane_of_warp() == 0) sums[k] = sum;
  }
}

/* Steps that are not truncated, by each block for itself. */
DEVICE float steps_that_count(const struct rule_run &run) {
  const unsigned each = (unsigned)STEP_TRUNCATED * 0x01010101u;
  size_t packs = is_aligned(run.flags) ? run.rows / 16 : 0, left_out = 0;
  for (size_t i = threadIdx.x; i < packs; i += BLOCK) {
    pack<uint32_t, 4> word = load_pack<uint32_t, 4>((const uint32_t *)run.flags + 4 * i);
    UNROLL
    for (int k = 0; k < 4; k++) left_out += (size_t)__popc(word.at[k] & each);
  }
  for (size_t i = packs * 16 + threadIdx.x; i < run.rows; i += BLOCK)
    left_out += (run.flags[i] & STEP_TRUNCATED) != 0;
  return (float)run.rows - block_sum((float)left_out);
}

DEVICE float scale_of(const struct rule_run &run) {
  float count = steps_that_count(run);
  return run.reduction == LOSS_SUM_OVER_TIME ? 1 / (float)run.N : count > 0 ? 1 / count : 0;
}

#define LOAD_REAL(x) ((const float *)(x))[i]
#define LOAD_FLOAT(x) (x)[i]
#define LOAD_ONE(x) ((const float *)(x))[0]
#define LOAD_WINDOW(x) (x)[i % (size_t)rule.run.N]
#define LOAD_ROW(row) \
  { (const float *)(row).x + PLACE_OF(&rule.run, row, i), STEP_OF(&rule.run) }
#define LOAD_AT(row) ((const float *)(row).x)[PLACE_OF(&rule.run, row, i)]
#define LOAD_FLOATS(floats) (floats) + i *(size_t)x.A
#define LOAD_CHOICES(choices) &(choices)
#define LOAD_DRAWS(draws) (draws) + i *(size_t)choices_made(&rule.choices)
#define LOAD_CHOSEN(chosen) LOAD_DRAWS(chosen)
#define LOAD(member, TYPE) x.member = LOAD_##TYPE(rule.member);
#define PLACE_REAL(member)
#define PLACE_FLOAT(member)
#define PLACE_INT(member)
#define PLACE_AT(member)
#define PLACE_EVERY(member)
#define PLACE_ROW(member) \
  x.member = {(float *)rule.member.x + PLACE_OF(&rule.run, rule.member, i), STEP_OF(&rule.run)};
#define PLACE_FLOATS(member) x.member = rule.member + i * (size_t)x.A;
#define PLACE_CHOSEN(member) x.member = LOAD_DRAWS(rule.member);
#define PLACE(member, TYPE) PLACE_##TYPE(member)
#define STORE_REAL(member) ((float *)rule.member)[i] = x.member;
#define STORE_FLOAT(member) rule.member[i] = x.member;
#define STORE_INT(member) rule.member[i] = (int32_t)x.member;
#define STORE_AT(member) ((float *)rule.member.x)[PLACE_OF(&rule.run, rule.member, i)] = x.member;
#define STORE_EVERY(member) rule.member.x[i * (size_t)rule.member.stride] = x.member;
#define STORE_ROW(member)
#define STORE_FLOATS(member)
#define STORE_CHOSEN(member)
#define STORE(member, TYPE) STORE_##TYPE(member)
#define ADD_UP(NUMBER, member) sums[NUMBER] += x.member;
#define CONSTANT(member) x.member = rule.member;

/* ---- STEPS: a thread each. The blocks' sums: part (sums, blocks), which the last block adds up */

#define KERNELS_OF_STEPS(name)                                                                  \
  KERNEL steps_of_##name(float *part, unsigned *arrived, PARAMETER struct name##_rule rule) {   \
    float sums[num_sums_of_##name] = {}, scale = scale_of(rule.run);                            \
    struct name##_numbers x;                                                                    \
    for (size_t i = grid_first(); i < rule.run.rows; i += grid_step()) {                        \
      bool counts = !(rule.run.flags[i] & STEP_TRUNCATED);                                      \
      x.entropy_cost = rule.run.schedule->entropy_cost;                                         \
      EACH_CONSTANT(name, CONSTANT) EACH_INPUT(name, LOAD) x.scale = counts ? scale : 0;        \
      name##_body(&x);                                                                          \
      EACH_OUTPUT(name, STORE) if (!counts) continue;                                           \
      sums[SUM_STEPS] += 1;                                                                     \
      EACH_SUM(name, ADD_UP)                                                                    \
    }                                                                                           \
    UNROLL                                                                                      \
    for (int k = 0; k < num_sums_of_##name; k++) {                                              \
      float sum = block_sum(sums[k]);                                                           \
      if (threadIdx.x == 0) part[(size_t)k * gridDim.x + blockIdx.x] = sum;                     \
    }                                                                                           \
    if (is_last_block(arrived)) write_sums((float *)rule.run.sums, part, num_sums_of_##name);   \
  }                                                                                             \
  static void run_##name(struct cuda *cuda, const void *arguments) {                            \
    const struct name##_rule *rule = (const struct name##_rule *)arguments;                     \
    unsigned blocks = blocks_for(rule->run.rows, BLOCK, RULE_BLOCKS);                           \
    float *part = (float *)cuda_scratch(cuda, num_sums_of_##name * RULE_BLOCKS * sizeof *part); \
    LAUNCH(steps_of_##name, blocks, BLOCK, cuda->stream, part, cuda->arrived, *rule);           \
  }

/* ---- ROWS: a warp each, its lanes on the row's numbers */

#define KERNELS_OF_ROWS(name)                                                                      \
  KERNEL rows_of_##name(PARAMETER struct name##_rule rule) {                                       \
    size_t i = row_of_warp();                                                                      \
    if (i >= rule.run.rows) return;                                                                \
    struct name##_numbers x;                                                                       \
    x.A = rule.run.A;                                                                              \
    EACH_CONSTANT(name, CONSTANT) EACH_INPUT(name, LOAD) EACH_OUTPUT(name, PLACE) name##_body(&x); \
    if (lane_of_warp() > 0) return;                                                                \
    EACH_OUTPUT(name, STORE)                                                                       \
  }                                                                                                \
  static void run_##name(struct cuda *cuda, const void *arguments) {                               \
    const struct name##_rule *rule = (const struct name##_rule *)arguments;                        \
    if (rule->run.rows > 0)                                                                        \
      LAUNCH(rows_of_##name, blocks_of_rows(rule->run.rows), BLOCK, cuda->stream, *rule);          \
  }

/* ---- NUMBERS: a thread each */

#define KERNELS_OF_NUMBERS(name)                                                         \
  KERNEL numbers_of_##name(struct name##_rule rule) {                                    \
    struct name##_numbers x;                                                             \
    EACH_CONSTANT(name, CONSTANT)                                                        \
    for (size_t i = grid_first(); i < rule.run.rows; i += grid_step()) {                 \
      EACH_INPUT(name, LOAD) name##_body(&x);                                            \
      EACH_OUTPUT(name, STORE)                                                           \
    }                                                                                    \
  }                                                                                      \
  static void run_##name(struct cuda *cuda, const void *arguments) {                     \
    const struct name##_rule *rule = (const struct name##_rule *)arguments;              \
    if (rule->run.rows > 0)                                                              \
      LAUNCH(numbers_of_##name, blocks_for(rule->run.rows), BLOCK, cuda->stream, *rule); \
  }

#define KERNELS(name, KIND) KERNELS_OF_##KIND(name)
RULES(KERNELS)

void cuda_run_rule(struct device *d, enum rule which, const struct rule_run *rule) {
#define NAME_OF_RUN(name, KIND) run_##name,
  static void (*const run[])(struct cuda *, const void *) = {RULES(NAME_OF_RUN)};
#undef NAME_OF_RUN
  run[which](cuda_of(d), rule);
}
