/* The reference device's rules: a loop over the steps for each. Part of ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_RULES_H
#define ACORN_LEARNER_DEVICE_REF_REF_RULES_H

#include "learner/device/ref/ref.h"

typedef REAL num;
#define RULE_FUNCTION static
#define num_of(x) ((REAL)(x))
#define num_exp(x) exp(x)
#define num_min(a, b) ((a) < (b) ? (a) : (b))
#define num_max(a, b) ((a) > (b) ? (a) : (b))
#define num_where_less(a, b, x, y) ((a) < (b) ? (x) : (y))
#include "learner/rules/bodies.inc"

static REAL rule_scale(const struct device_rule *rule) {
  if (rule->reduction == LOSS_SUM_OVER_TIME) return 1 / (REAL)rule->N;
  size_t count = 0;
  for (size_t i = 0; i < rule->rows; i++) count += !(rule->flags[i] & STEP_TRUNCATED);
  return count ? 1 / (REAL)count : 0;
}

#define LOAD_REAL(x) (((const REAL *)(x))[i])
#define LOAD_FLOAT(x) ((REAL)((const float *)(x))[i])
#define LOAD(NUMBER, member, TYPE) x.member = LOAD_##TYPE(rule->in[NUMBER]);
#define STORE(NUMBER, member) ((REAL *)rule->out[NUMBER])[i] = x.member;
#define ADD_UP(NUMBER, member) sums[NUMBER] += (double)x.member;
#define CONSTANT(NUMBER, member) x.member = (REAL)rule->constant[NUMBER];

#define DRIVER(name)                                                                      \
  static void run_##name(const struct device_rule *rule) {                                \
    double sums[num_sums_of_##name] = {0};                                                \
    REAL scale = rule_scale(rule);                                                        \
    struct name##_numbers x = {.entropy_cost = (REAL)rule->schedule->entropy_cost};       \
    CONSTANTS_OF_##name(CONSTANT) for (size_t i = 0; i < rule->rows; i++) {               \
      bool counts = !(rule->flags[i] & STEP_TRUNCATED);                                   \
      x.scale = counts ? scale : 0;                                                       \
      INPUTS_OF_##name(LOAD) name##_rule(&x);                                             \
      OUTPUTS_OF_##name(STORE) if (!counts) continue;                                     \
      sums[SUM_STEPS] += 1;                                                               \
      SUMS_OF_##name(ADD_UP)                                                              \
    }                                                                                     \
    for (int k = 0; k < num_sums_of_##name; k++) ((REAL *)rule->sums)[k] = (REAL)sums[k]; \
  }
RULES(DRIVER)

static void ref_run_rule(struct device *d, enum rule which, const struct device_rule *rule) {
#define ROW(name) run_##name,
  static void (*const run[])(const struct device_rule *) = {RULES(ROW)};
#undef ROW
  (void)d;
  run[which](rule);
}

#endif
