/* Rules: operation run_rule, W steps at a time. Part of cpu_kernels.c. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_RULES_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_RULES_H

#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_math.h"

typedef vf num;
#define RULE_FUNCTION INLINE
#define num_of(x) splat(x)
#define num_exp(x) vexp(x)
#define num_min(a, b) vmin(a, b)
#define num_max(a, b) vmax(a, b)
#define num_where_less(a, b, x, y) select_less(a, b, x, y)
#include "learner/rules/bodies.inc"

static float rule_scale(const struct device_rule *rule) {
  if (rule->reduction == LOSS_SUM_OVER_TIME) return 1.0f / (float)rule->N;
  int count = 0;
  for (size_t i = 0; i < rule->rows; i++) count += !(rule->flags[i] & STEP_TRUNCATED);
  return count ? 1.0f / (float)count : 0;
}

/* 1 for those of W steps that count, else 0. */
INLINE vf counting(const struct device_rule *rule, size_t i, int lanes) {
  vi masked = load_bytes_some(rule->flags + i, lanes) & STEP_TRUNCATED;
  vf on = select_equal(masked, (vi){0}, splat(1), splat(0));
  for (int k = lanes; k < W; k++) on[k] = 0;
  return on;
}

#define LOAD(NUMBER, member, TYPE) x.member = load_some((const float *)rule->in[NUMBER] + i, lanes);
#define STORE(NUMBER, member) store_some((float *)rule->out[NUMBER] + i, x.member, lanes);
#define ADD_UP(NUMBER, member) sums[NUMBER] += on * x.member;
#define CONSTANT(NUMBER, member) x.member = splat(rule->constant[NUMBER]);

#define DRIVER(name)                                                                            \
  static void run_##name(const struct device_rule *rule) {                                      \
    vf sums[num_sums_of_##name] = {{0}};                                                        \
    float scale = rule_scale(rule);                                                             \
    struct name##_numbers x = {.entropy_cost = splat(rule->schedule->entropy_cost)};            \
    CONSTANTS_OF_##name(CONSTANT) for (size_t i = 0; i < rule->rows; i += W) {                  \
      int lanes = rule->rows - i < W ? (int)(rule->rows - i) : W;                               \
      vf on = counting(rule, i, lanes);                                                         \
      x.scale = on * scale;                                                                     \
      INPUTS_OF_##name(LOAD) name##_rule(&x);                                                   \
      OUTPUTS_OF_##name(STORE) sums[SUM_STEPS] += on;                                           \
      SUMS_OF_##name(ADD_UP)                                                                    \
    }                                                                                           \
    for (int k = 0; k < num_sums_of_##name; k++) ((float *)rule->sums)[k] = sum_lanes(sums[k]); \
  }
RULES(DRIVER)

static void run_rule(struct device *d, enum rule which, const struct device_rule *rule) {
#define ROW(name) run_##name,
  static void (*const run[])(const struct device_rule *) = {RULES(ROW)};
#undef ROW
  (void)d;
  run[which](rule);
}

#endif
