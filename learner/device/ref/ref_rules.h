/* The reference device's rules: a loop over the rows for each. Part of ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_RULES_H
#define ACORN_LEARNER_DEVICE_REF_REF_RULES_H

#include "learner/device/ref/ref.h"

typedef REAL num;
typedef struct {
  const REAL *x;
  int step;
} row_in;
typedef struct {
  REAL *x;
  int step;
} row_out;
typedef const float *floats_in;
typedef float *floats_out;
typedef const int32_t *chosen_in;
typedef int32_t *chosen_out;
#define RULE_FUNCTION static
#define num_of(x) ((REAL)(x))
#define num_exp(x) exp(x)
#define num_log(x) log(x)
#define num_sqrt(x) sqrt(x)
#define num_abs(x) fabs(x)
#define num_float(x) ((REAL)(float)(x))
#define num_floor(x) floor(x)
#define num_min(a, b) ((a) < (b) ? (a) : (b))
#define num_max(a, b) ((a) > (b) ? (a) : (b))
#define num_where_less(a, b, x, y) ((a) < (b) ? (x) : (y))
#define num_where_equal(a, b, x, y) ((a) == (b) ? (x) : (y))
#define ROW_EACH(a) for (int a = 0; a < A; a++)
#define ROW_IN_ORDER(a) ROW_EACH(a)
#define row_sum(x) (x)
#define row_min(x) (x)
#define row_max(x) (x)
#define row_so_far(a, before, x) (before += (x))
#define row_at(row, a) ((row).x[(size_t)(a) * (size_t)(row).step])
#define row_put(row, a, number) ((row).x[(size_t)(a) * (size_t)(row).step] = (number))
#define floats_at(floats, a) ((REAL)(floats)[a])
#define floats_put(floats, a, x) ((floats)[a] = (float)(x))
#define row_pick(row, a, A) row_at(row, a)
#define row_in_from(row, first) ((row_in){&row_at(row, first), (row).step})
#define row_out_from(row, first) ((row_out){&row_at(row, first), (row).step})
#define draws_at(draws, c) floats_at(draws, c)
#define chosen_at(chosen, c) ((REAL)(chosen)[c])
#define chosen_put(chosen, c, a) ((chosen)[c] = (int32_t)(a))
#define num_index(a) ((REAL)(a))
#include "learner/rules/bodies.inc"

/* What a step's gradients are multiplied by. */
static REAL rule_scale(const struct rule_run *run) {
  if (run->reduction == LOSS_SUM_OVER_TIME) return 1 / (REAL)run->N;
  size_t count = 0;
  for (size_t i = 0; i < run->rows; i++) count += !(run->flags[i] & STEP_TRUNCATED);
  return count ? 1 / (REAL)count : 0;
}

#define LOAD_REAL(x) (((const REAL *)(x))[i])
#define LOAD_FLOAT(x) ((REAL)((x)[i]))
#define LOAD_ONE(x) (((const REAL *)(x))[0])
#define LOAD_WINDOW(x) ((REAL)((x)[i % (size_t)rule->run.N]))
#define LOAD_ROW(row) \
  ((row_in){(const REAL *)(row).x + PLACE_OF(&rule->run, row, i), STEP_OF(&rule->run)})
#define LOAD_AT(row) (((const REAL *)(row).x)[PLACE_OF(&rule->run, row, i)])
#define LOAD_FLOATS(floats) ((floats) + i * (size_t)x.A)
#define LOAD_CHOICES(choices) (&(choices))
#define LOAD_DRAWS(draws) ((draws) + i * (size_t)choices_made(&rule->choices))
#define LOAD_CHOSEN(chosen) LOAD_DRAWS(chosen)
#define LOAD(member, TYPE) x.member = LOAD_##TYPE(rule->member);
#define PLACE_REAL(y)
#define PLACE_FLOAT(y)
#define PLACE_INT(y)
#define PLACE_AT(member)
#define PLACE_EVERY(member)
#define PLACE_ROW(member)                                                              \
  x.member = (row_out){(REAL *)rule->member.x + PLACE_OF(&rule->run, rule->member, i), \
                       STEP_OF(&rule->run)};
#define PLACE_FLOATS(member) x.member = rule->member + i * (size_t)x.A;
#define PLACE_CHOSEN(member) x.member = LOAD_DRAWS(rule->member);
#define PLACE(member, TYPE) PLACE_##TYPE(member)
#define STORE_REAL(member) ((REAL *)rule->member)[i] = x.member;
#define STORE_FLOAT(member) rule->member[i] = (float)x.member;
#define STORE_INT(member) rule->member[i] = (int32_t)x.member;
#define STORE_AT(member) ((REAL *)rule->member.x)[PLACE_OF(&rule->run, rule->member, i)] = x.member;
#define STORE_EVERY(member) rule->member.x[i * (size_t)rule->member.stride] = (float)x.member;
#define STORE_ROW(member)
#define STORE_FLOATS(member)
#define STORE_CHOSEN(member)
#define STORE(member, TYPE) STORE_##TYPE(member)
#define ADD_UP(NUMBER, member) sums[NUMBER] += (double)x.member;
#define CONSTANT(member) x.member = (REAL)rule->member;

#define DRIVER_OF_STEPS(name)                                                            \
  static void run_##name(const void *arguments) {                                        \
    const struct name##_rule *rule = arguments;                                          \
    const struct rule_run *run = &rule->run;                                             \
    double sums[num_sums_of_##name] = {0};                                               \
    REAL scale = rule_scale(run);                                                        \
    struct name##_numbers x = {.entropy_cost = (REAL)run->schedule->entropy_cost};       \
    EACH_CONSTANT(name, CONSTANT) for (size_t i = 0; i < run->rows; i++) {               \
      bool counts = !(run->flags[i] & STEP_TRUNCATED);                                   \
      x.scale = counts ? scale : 0;                                                      \
      EACH_INPUT(name, LOAD) name##_body(&x);                                            \
      EACH_OUTPUT(name, STORE) if (!counts) continue;                                    \
      sums[SUM_STEPS] += 1;                                                              \
      EACH_SUM(name, ADD_UP)                                                             \
    }                                                                                    \
    for (int k = 0; k < num_sums_of_##name; k++) ((REAL *)run->sums)[k] = (REAL)sums[k]; \
  }

#define DRIVER_OF_ROWS(name)                                                    \
  static void run_##name(const void *arguments) {                               \
    const struct name##_rule *rule = arguments;                                 \
    struct name##_numbers x = {.A = rule->run.A};                               \
    EACH_CONSTANT(name, CONSTANT) for (size_t i = 0; i < rule->run.rows; i++) { \
      EACH_INPUT(name, LOAD) EACH_OUTPUT(name, PLACE) name##_body(&x);          \
      EACH_OUTPUT(name, STORE)                                                  \
    }                                                                           \
  }

#define DRIVER_OF_NUMBERS(name) DRIVER_OF_ROWS(name)
#define DRIVER(name, KIND) DRIVER_OF_##KIND(name)
RULES(DRIVER)

static void ref_run_rule(struct device *d, enum rule which, const struct rule_run *rule) {
#define DRIVER_NAME(name, KIND) run_##name,
  static void (*const run[])(const void *) = {RULES(DRIVER_NAME)};
#undef DRIVER_NAME
  (void)d;
  run[which](rule);
}

#endif
