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
typedef const float *chosen_in;
typedef float *chosen_out;
#define RULE_FUNCTION INLINE
#define num_of(x) splat((float)(x))
#define num_exp(x) vexp(x)
#define num_log(x) vlog(x)
#define num_sqrt(x) vsqrt(x)
#define num_abs(x) vabs(x)
#define num_float(x) (x)
#define num_floor(x) __builtin_convertvector(__builtin_convertvector(x, vi), vf)
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
#define row_in_from(row, first) ((row) + (size_t)(first)*W)
#define row_out_from(row, first) row_in_from(row, first)
#define draws_at(draws, c) row_at(draws, c)
#define chosen_at(chosen, c) row_at(chosen, c)
#define chosen_put(chosen, c, a) row_put(chosen, c, a)
#include "learner/rules/bodies.inc"

static float rule_scale(const struct rule_run *run) {
  if (run->reduction == LOSS_SUM_OVER_TIME) return 1.0f / (float)run->N;
  int count = 0;
  for (size_t i = 0; i < run->rows; i++) count += !(run->flags[i] & STEP_TRUNCATED);
  return count ? 1.0f / (float)count : 0;
}

/* -1 for those of W steps that count, else 0. */
INLINE vi counting(const struct rule_run *run, size_t i, int lanes) {
  vi on = (load_bytes_some(run->flags + i, lanes) & STEP_TRUNCATED) == 0;
  for (int k = lanes; k < W; k++) on[k] = 0;
  return on;
}

/* The next A columns of scratch memory. */
INLINE float *columns_next(float **room, int A) {
  float *columns = *room;
  *room += (size_t)A * W;
  return columns;
}

/* Of dense rows x, from row i. */
INLINE const float *columns_of(float **room, const float *x, size_t i, int lanes, int A) {
  float *columns = columns_next(room, A);
  columns_read(columns, x + i * (size_t)A, A, lanes, A);
  return columns;
}

/* What was chosen (rows, C), from row i, as columns of numbers. */
INLINE const float *chosen_read(float **room, const int32_t *x, size_t i, int lanes, int C) {
  float *columns = columns_next(room, C);
  if (C == 1) {
    store(columns, __builtin_convertvector(load_int_some(x + i, lanes), vf));
    return columns;
  }
  for (int c = 0; c < C; c++) {
    vf y = {0};
    for (int k = 0; k < lanes; k++) y[k] = (float)x[(i + (size_t)k) * (size_t)C + (size_t)c];
    store(columns + (size_t)c * W, y);
  }
  return columns;
}

INLINE void chosen_write(int32_t *y, const float *columns, size_t i, int lanes, int C) {
  if (C == 1) {
    store_int_some(y + i, __builtin_convertvector(load(columns), vi), lanes);
    return;
  }
  for (int c = 0; c < C; c++)
    for (int k = 0; k < lanes; k++)
      y[(i + (size_t)k) * (size_t)C + (size_t)c] = (int32_t)columns[c * W + k];
}

/* Rows that are computed together: `lanes` of them from row i on; side by side, from place `within`
 * of block `block` on. */
struct group {
  size_t i, block;
  int within, lanes;
  bool side_by_side;
};

/* Where W rows begin, in reals. */
struct places {
  size_t at[W];     /* only the first unless they are apart */
  int stride, step; /* between rows, and between a row's numbers */
  enum { PLACES_EVEN, PLACES_SIDE_BY_SIDE, PLACES_APART } kind;
};

INLINE struct places places_of(const struct rule_run *run, int stride, const int32_t *from,
                               const int32_t *pick, int choices, const struct group *g) {
  struct places places = {.stride = stride, .step = STEP_OF(run)};
  bool apart = from || pick;
  places.kind = g->side_by_side ? PLACES_SIDE_BY_SIDE : apart ? PLACES_APART : PLACES_EVEN;
  if (places.kind == PLACES_SIDE_BY_SIDE)
    places.at[0] = g->block * (size_t)stride + (size_t)g->within;
  else
    for (int k = 0; k < (apart ? g->lanes : 1); k++)
      places.at[k] = rule_place(run, stride, from, pick, choices, g->i + (size_t)k);
  return places;
}
#define PLACES(row) places_of(run, (row)->stride, (row)->from, (row)->pick, (row)->choices, g)

/* Number a of each of them. */
INLINE vf numbers_read(const float *x, const struct places *places, int a, int lanes) {
  size_t offset = (size_t)a * (size_t)places->step;
  const float *first = x + places->at[0] + offset;
  if (places->kind == PLACES_EVEN) return load_column(first, places->stride, lanes);
  if (places->kind == PLACES_SIDE_BY_SIDE) return load_some(first, lanes);
  vf y = {0};
  for (int k = 0; k < lanes; k++) y[k] = x[places->at[k] + offset];
  return y;
}

INLINE void numbers_write(float *y, const struct places *places, int a, vf x, int lanes) {
  size_t offset = (size_t)a * (size_t)places->step;
  float *first = y + places->at[0] + offset;
  if (places->kind == PLACES_EVEN)
    store_column(first, places->stride, x, lanes);
  else if (places->kind == PLACES_SIDE_BY_SIDE)
    store_some(first, x, lanes);
  else
    for (int k = 0; k < lanes; k++) y[places->at[k] + offset] = x[k];
}

INLINE const float *rows_read(float **room, const struct rule_run *run,
                              const struct rule_row_in *row, const struct group *g) {
  struct places places = PLACES(row);
  float *columns = columns_next(room, run->A);
  for (int a = 0; a < run->A; a++)
    store(columns + (size_t)a * W, numbers_read((const float *)row->x, &places, a, g->lanes));
  return columns;
}

INLINE void rows_write(const struct rule_run *run, const struct rule_row_out *row,
                       const float *columns, const struct group *g) {
  struct places places = PLACES(row);
  for (int a = 0; a < run->A; a++)
    numbers_write((float *)row->x, &places, a, load(columns + (size_t)a * W), g->lanes);
}

INLINE vf reals_read(const struct rule_run *run, const struct rule_row_in *row,
                     const struct group *g) {
  struct places places = PLACES(row);
  return numbers_read((const float *)row->x, &places, 0, g->lanes);
}

INLINE void reals_write(const struct rule_run *run, const struct rule_row_out *row, vf x,
                        const struct group *g) {
  struct places places = PLACES(row);
  numbers_write((float *)row->x, &places, 0, x, g->lanes);
}

/* Of each step its window's. */
INLINE vf windows_read(const float *x, size_t i, int N, int lanes) {
  vf y = {0};
  for (int k = 0; k < W && k < lanes; k++) y[k] = x[(i + (size_t)k) % (size_t)N];
  return y;
}

#define LOAD_REAL(x) load_some((const float *)(x) + i, lanes)
#define LOAD_FLOAT(x) load_some((x) + i, lanes)
#define LOAD_ONE(x) splat(*(const float *)(x))
#define LOAD_WINDOW(x) windows_read(x, i, rule->run.N, lanes)
#define LOAD_ROW(row) rows_read(&room, &rule->run, &(row), &g)
#define LOAD_AT(row) reals_read(&rule->run, &(row), &g)
#define LOAD_FLOATS(floats) columns_of(&room, floats, i, lanes, x.A)
#define LOAD_CHOICES(choices) (&(choices))
#define LOAD_DRAWS(draws) columns_of(&room, draws, i, lanes, choices_made(&rule->choices))
#define LOAD_CHOSEN(chosen) chosen_read(&room, chosen, i, lanes, choices_made(&rule->choices))
#define LOAD(member, TYPE) x.member = LOAD_##TYPE(rule->member);
#define PLACE_REAL(member)
#define PLACE_FLOAT(member)
#define PLACE_INT(member)
#define PLACE_AT(member)
#define PLACE_EVERY(member)
#define PLACE_ROW(member) x.member = columns_next(&room, x.A);
#define PLACE_FLOATS(member) PLACE_ROW(member)
#define PLACE_CHOSEN(member) x.member = columns_next(&room, choices_made(&rule->choices));
#define PLACE(member, TYPE) PLACE_##TYPE(member)
#define STORE_REAL(member) store_some((float *)rule->member + i, x.member, lanes);
#define STORE_FLOAT(member) store_some(rule->member + i, x.member, lanes);
#define STORE_INT(member) \
  store_int_some(rule->member + i, __builtin_convertvector(x.member, vi), lanes);
#define STORE_AT(member) reals_write(&rule->run, &rule->member, x.member, &g);
#define STORE_EVERY(member)                                                                     \
  store_column(rule->member.x + i * (size_t)rule->member.stride, rule->member.stride, x.member, \
               lanes);
#define STORE_ROW(member) rows_write(&rule->run, &rule->member, x.member, &g);
#define STORE_FLOATS(member) \
  columns_write(rule->member + i * (size_t)x.A, x.A, x.member, lanes, x.A);
#define STORE_CHOSEN(member) \
  chosen_write(rule->member, x.member, i, lanes, choices_made(&rule->choices));
#define STORE(member, TYPE) STORE_##TYPE(member)
#define COUNT_REAL 0
#define COUNT_FLOAT 0
#define COUNT_INT 0
#define COUNT_ONE 0
#define COUNT_AT 0
#define COUNT_WINDOW 0
#define COUNT_EVERY 0
#define COUNT_CHOICES 0
#define COUNT_DRAWS 1 /* a row has at least a number for each choice */
#define COUNT_CHOSEN 1
#define COUNT_ROW 1
#define COUNT_FLOATS 1
#define COUNT(member, TYPE) +COUNT_##TYPE
#define ADD_UP(NUMBER, member) sums[NUMBER] += choose(on, x.member, splat(0));
#define CONSTANT(member) x.member = splat(rule->member);

#define DRIVER_OF_STEPS(name)                                                                  \
  static void run_##name(struct device *d, const void *arguments) {                            \
    const struct name##_rule *rule = arguments;                                                \
    const struct rule_run *run = &rule->run;                                                   \
    vf sums[num_sums_of_##name] = {{0}};                                                       \
    float scale = rule_scale(run);                                                             \
    struct name##_numbers x = {.entropy_cost = splat(run->schedule->entropy_cost)};            \
    (void)d;                                                                                   \
    EACH_CONSTANT(name, CONSTANT) for (size_t i = 0; i < run->rows; i += W) {                  \
      int lanes = lanes_left(run->rows, i);                                                    \
      vi on = counting(run, i, lanes);                                                         \
      x.scale = choose(on, splat(scale), splat(0));                                            \
      EACH_INPUT(name, LOAD) name##_body(&x);                                                  \
      EACH_OUTPUT(name, STORE) sums[SUM_STEPS] += choose(on, splat(1), splat(0));              \
      EACH_SUM(name, ADD_UP)                                                                   \
    }                                                                                          \
    for (int k = 0; k < num_sums_of_##name; k++) ((float *)run->sums)[k] = sum_lanes(sums[k]); \
  }

#define DRIVER_OF_ROWS(name)                                                                       \
  INLINE void name##_group(const struct name##_rule *rule, float *room, struct group g) {          \
    struct name##_numbers x = {.A = rule->run.A};                                                  \
    const size_t i = g.i;                                                                          \
    const int lanes = g.lanes;                                                                     \
    (void)room, (void)i, (void)lanes;                                                              \
    EACH_CONSTANT(name, CONSTANT) EACH_INPUT(name, LOAD) EACH_OUTPUT(name, PLACE) name##_body(&x); \
    EACH_OUTPUT(name, STORE)                                                                       \
  }                                                                                                \
  static void run_##name(struct device *d, const void *arguments) {                                \
    const struct name##_rule *rule = arguments;                                                    \
    const struct rule_run *run = &rule->run;                                                       \
    enum { ROWS_OF_MANY = 0 MEMBERS_OF_##name(COUNT, COUNT, NO_MEMBER, NO_MEMBER) };               \
    float *room = cpu_scratch(d, SCRATCH_STATE, (size_t)ROWS_OF_MANY * (size_t)run->A * W);        \
    EACH_GROUP(name##_group)                                                                       \
  }

/* W as a constant to the compiler, wherever there are so many. Rows side by side end with W, too,
 * some of them computed again. */
#define EACH_GROUP(group_of)                                                                   \
  const int side = run->columns < W ? run->columns : W;                                        \
  if (run->columns <= 1)                                                                       \
    for (size_t i = 0; i < run->rows; i += W) {                                                \
      int lanes = lanes_left(run->rows, i);                                                    \
      if (lanes == W)                                                                          \
        group_of(rule, room, (struct group){.i = i, .lanes = W});                              \
      else                                                                                     \
        group_of(rule, room, (struct group){.i = i, .lanes = lanes});                          \
    }                                                                                          \
  else                                                                                         \
    for (size_t i = 0, block = 0; i < run->rows; i += (size_t)run->columns, block++)           \
      for (int done = 0; done < run->columns; done += W) {                                     \
        int within = done < run->columns - side ? done : run->columns - side;                  \
        if (side == W)                                                                         \
          group_of(rule, room, (struct group){i + (size_t)within, block, within, W, true});    \
        else                                                                                   \
          group_of(rule, room, (struct group){i + (size_t)within, block, within, side, true}); \
      }

#define DRIVER_OF_NUMBERS(name) DRIVER_OF_ROWS(name)
#define DRIVER(name, KIND) DRIVER_OF_##KIND(name)
RULES(DRIVER)

static void run_rule(struct device *d, enum rule which, const struct rule_run *rule) {
#define DRIVER_NAME(name, KIND) run_##name,
  static void (*const run[])(struct device *, const void *) = {RULES(DRIVER_NAME)};
#undef DRIVER_NAME
  run[which](d, rule);
}

#endif
