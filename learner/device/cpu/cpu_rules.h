/* Rules: operation run_rule, W rows at a time, a lane each: their arrays of A numbers are first
 * turned into columns (A, W), so that the loops run over the numbers. Part of cpu_kernels.c. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_RULES_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_RULES_H

#include <math.h>

#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_columns.h"
#include "learner/device/cpu/cpu_math.h"

typedef vf num;
typedef const float *row_in;
typedef float *row_out;
typedef const float *floats_in;
typedef float *floats_out;
#define RULE_FUNCTION INLINE
#define num_of(x) splat((float)(x))
#define num_exp(x) vexp(x)
#define num_log(x) vlog(x)
#define num_sqrt(x) vsqrt(x)
#define num_min(a, b) vmin(a, b)
#define num_max(a, b) vmax(a, b)
#define num_where_less(a, b, x, y) select_less(a, b, x, y)
#define num_where_equal(a, b, x, y) select_equal_floats(a, b, x, y)
#define ROW_EACH(a) for (int a = 0; a < A; a++)
#define ROW_IN_ORDER(a) ROW_EACH(a)
#define row_sum(x) (x)
#define row_min(x) (x)
#define row_max(x) (x)
#define row_so_far(a, before, x) (before += (x))
#define row_at(row, a) load((row) + (size_t)(a)*W)
#define row_put(row, a, x) store((row) + (size_t)(a)*W, x)
#define floats_at(floats, a) row_at(floats, a)
#define floats_put(floats, a, x) row_put(floats, a, x)
#define row_pick(row, a, A) chosen(row, __builtin_convertvector(a, vi), A)
#define num_index(a) splat((float)(a))
#include "learner/rules/bodies.inc"

static float rule_scale(const struct rule_run *run) {
  if (run->reduction == LOSS_SUM_OVER_TIME) return 1.0f / (float)run->N;
  int count = 0;
  for (size_t i = 0; i < run->rows; i++) count += !(run->flags[i] & STEP_TRUNCATED);
  return count ? 1.0f / (float)count : 0;
}

/* 1 for those of W steps that count, else 0. */
INLINE vf counting(const struct rule_run *run, size_t i, int lanes) {
  vi masked = load_bytes_some(run->flags + i, lanes) & STEP_TRUNCATED;
  vf on = select_equal(masked, (vi){0}, splat(1), splat(0));
  for (int k = lanes; k < W; k++) on[k] = 0;
  return on;
}

/* The next A columns of scratch memory. */
INLINE float *columns_next(float **room, int A) {
  float *columns = *room;
  *room += (size_t)A * W;
  return columns;
}

/* Of rows x, `stride` apart, from row i. */
INLINE const float *columns_of(float **room, const float *x, int stride, size_t i, int lanes,
                               int A) {
  float *columns = columns_next(room, A);
  columns_read(columns, x + i * (size_t)stride, stride, lanes, A);
  return columns;
}

#define LOAD_REAL(x) load_some((const float *)(x) + i, lanes)
#define LOAD_FLOAT(x) load_some((x) + i, lanes)
#define LOAD_INT(x) __builtin_convertvector(load_int_some((x) + i, lanes), vf)
#define LOAD_ONE(x) splat(*(const float *)(x))
#define LOAD_ROW(row) columns_of(&room, (const float *)(row).x, (row).stride, i, lanes, x.A)
#define LOAD_FLOATS(floats) columns_of(&room, floats, x.A, i, lanes, x.A)
#define LOAD(member, TYPE) x.member = LOAD_##TYPE(rule->member);
#define PLACE_REAL(member)
#define PLACE_FLOAT(member)
#define PLACE_INT(member)
#define PLACE_ROW(member) x.member = columns_next(&room, x.A);
#define PLACE_FLOATS(member) PLACE_ROW(member)
#define PLACE(member, TYPE) PLACE_##TYPE(member)
#define STORE_REAL(member) store_some((float *)rule->member + i, x.member, lanes);
#define STORE_FLOAT(member) store_some(rule->member + i, x.member, lanes);
#define STORE_INT(member) \
  store_int_some(rule->member + i, __builtin_convertvector(x.member, vi), lanes);
#define STORE_ROW(member)                                                                       \
  columns_write((float *)rule->member.x + i * (size_t)rule->member.stride, rule->member.stride, \
                x.member, lanes, x.A);
#define STORE_FLOATS(member) \
  columns_write(rule->member + i * (size_t)x.A, x.A, x.member, lanes, x.A);
#define STORE(member, TYPE) STORE_##TYPE(member)
#define COUNT_REAL 0
#define COUNT_FLOAT 0
#define COUNT_INT 0
#define COUNT_ONE 0
#define COUNT_ROW 1
#define COUNT_FLOATS 1
#define COUNT(member, TYPE) +COUNT_##TYPE
#define ADD_UP(NUMBER, member) sums[NUMBER] += on * x.member;
#define CONSTANT(member) x.member = splat(rule->member);

#define DRIVER_OF_STEPS(name)                                                                  \
  static void run_##name(struct device *d, const void *arguments) {                            \
    const struct name##_rule *rule = arguments;                                                \
    const struct rule_run *run = &rule->run;                                                   \
    vf sums[num_sums_of_##name] = {{0}};                                                       \
    float scale = rule_scale(run);                                                             \
    struct name##_numbers x = {.entropy_cost = splat(run->schedule->entropy_cost)};            \
    (void)d;                                                                                   \
    CONSTANTS_OF_##name(CONSTANT) for (size_t i = 0; i < run->rows; i += W) {                  \
      int lanes = lanes_left(run->rows, i);                                                    \
      vf on = counting(run, i, lanes);                                                         \
      x.scale = on * scale;                                                                    \
      INPUTS_OF_##name(LOAD) name##_body(&x);                                                  \
      OUTPUTS_OF_##name(STORE) sums[SUM_STEPS] += on;                                          \
      SUMS_OF_##name(ADD_UP)                                                                   \
    }                                                                                          \
    for (int k = 0; k < num_sums_of_##name; k++) ((float *)run->sums)[k] = sum_lanes(sums[k]); \
  }

#define DRIVER_OF_ROWS(name)                                                               \
  static void run_##name(struct device *d, const void *arguments) {                        \
    const struct name##_rule *rule = arguments;                                            \
    enum { ROWS_OF_MANY = 0 INPUTS_OF_##name(COUNT) OUTPUTS_OF_##name(COUNT) };            \
    struct name##_numbers x = {.A = rule->run.A};                                          \
    float *memory = cpu_scratch(d, SCRATCH_STATE, (size_t)ROWS_OF_MANY * (size_t)x.A * W); \
    CONSTANTS_OF_##name(CONSTANT) for (size_t i = 0; i < rule->run.rows; i += W) {         \
      int lanes = lanes_left(rule->run.rows, i);                                           \
      float *room = memory;                                                                \
      (void)room;                                                                          \
      INPUTS_OF_##name(LOAD) OUTPUTS_OF_##name(PLACE) name##_body(&x);                     \
      OUTPUTS_OF_##name(STORE)                                                             \
    }                                                                                      \
  }

#define DRIVER(name, KIND) DRIVER_OF_##KIND(name)
RULES(DRIVER)

static void run_rule(struct device *d, enum rule which, const struct rule_run *rule) {
#define DRIVER_NAME(name, KIND) run_##name,
  static void (*const run[])(struct device *, const void *) = {RULES(DRIVER_NAME)};
#undef DRIVER_NAME
  run[which](d, rule);
}

#endif
