/* Rules: straight arithmetic on the few numbers of a step or a row, written once for all devices.
 * Each has a list of its arrays and numbers, and a body in the dialect of bodies.inc. The operation
 * run_rule of a device (device.h) goes over the rows: it loads the inputs, runs the body, stores
 * the outputs and adds up the sums.
 *
 * MEMBERS_OF_name: IN(member, TYPE) and OUT(member, TYPE), an array (rows), or of several numbers
 * for each row; SUM(NUMBER, member), NUMBER its place behind SUM_STEPS, the driver's: how many
 * steps count; CONSTANT(member), a float; in this order. TYPE: REAL, FLOAT, ROW: run.A reals for
 * each row, AT: one real anywhere (struct rule_row_in), FLOATS: run.A floats, dense; CHOSEN: an
 * int32 for each choice of `choices`, whose type is CHOICES, a struct space_choices; of inputs
 * also DRAWS: a float for each of these, ONE: a real for all rows, WINDOW: a float (N) for the
 * steps of each window; of outputs also INT: an int32, EVERY: a float, so many apart. The list
 * becomes struct name_rule, the arguments of run_rule, and struct name_numbers (bodies.inc).
 * Upstream: learner/device, learner/learn. Thread: any (constants). */
#ifndef ACORN_LEARNER_RULES_RULES_H
#define ACORN_LEARNER_RULES_RULES_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/space.h"
#include "learner/rules/all.inc"

typedef struct real real; /* as in device.h */
struct device_schedule;

/* What a loss is over the steps of a batch that count. */
enum loss_reduction {
  LOSS_MEAN,         /* the mean */
  LOSS_SUM_OVER_TIME /* the sum over the T steps of a window, the mean over the N windows */
};

/* What the rules' arguments begin with. */
struct rule_run {
  size_t rows;
  int A; /* numbers of a row in arrays of type ROW */
  /* More than 1: rows of type ROW or AT lie side by side, so many: (rows / columns, A, columns),
   * the first dimension `stride` apart. No output is an input then. */
  int columns;
  /* STEPS only: */
  int N; /* windows */
  enum loss_reduction reduction;
  const struct device_schedule *schedule; /* device memory, as is all that follows */
  const uint8_t *flags;                   /* (rows) */
  real *sums;                             /* (SUM_STEPS and the rule's) */
};

/* An array (rows, A). Rows are `stride` reals apart; 0: the same for all rows. With `from` it has
 * rows of its own, of which row i is given row from[i]. With `pick` each of those is `choices`
 * rows, of which one is given: number pick[i], with both pick[from[i]]; one out of range counts as
 * 0. Rows that are written must be different ones. */
struct rule_row_in {
  const real *x;
  int stride;
  const int32_t *from, *pick; /* or NULL */
  int choices;
};
struct rule_row_out {
  real *x;
  int stride;
  const int32_t *from, *pick;
  int choices;
};

/* Floats (rows), `stride` apart. */
struct rule_every {
  float *x;
  int stride;
};

#define RULE_IN_REAL const real *
#define RULE_IN_FLOAT const float *
#define RULE_IN_ONE const real *
#define RULE_IN_FLOATS const float *
#define RULE_IN_ROW struct rule_row_in
#define RULE_IN_AT struct rule_row_in
#define RULE_IN_WINDOW const float *
#define RULE_IN_CHOICES struct space_choices
#define RULE_IN_DRAWS const float *
#define RULE_IN_CHOSEN const int32_t *
#define RULE_OUT_REAL real *
#define RULE_OUT_FLOAT float *
#define RULE_OUT_INT int32_t *
#define RULE_OUT_ROW struct rule_row_out
#define RULE_OUT_AT struct rule_row_out
#define RULE_OUT_EVERY struct rule_every
#define RULE_OUT_FLOATS float *
#define RULE_OUT_CHOSEN int32_t *

/* X for each of a rule's members of one kind. */
#define NO_MEMBER(...)
#define EACH_INPUT(name, X) MEMBERS_OF_##name(X, NO_MEMBER, NO_MEMBER, NO_MEMBER)
#define EACH_OUTPUT(name, X) MEMBERS_OF_##name(NO_MEMBER, X, NO_MEMBER, NO_MEMBER)
#define EACH_SUM(name, X) MEMBERS_OF_##name(NO_MEMBER, NO_MEMBER, X, NO_MEMBER)
#define EACH_CONSTANT(name, X) MEMBERS_OF_##name(NO_MEMBER, NO_MEMBER, NO_MEMBER, X)

#define RULE_INPUT(member, TYPE) RULE_IN_##TYPE member;
#define RULE_OUTPUT(member, TYPE) RULE_OUT_##TYPE member;
#define RULE_CONSTANT(member) float member;
#define RULE_NUMBER(NUMBER, ...) NUMBER,
#define RULE_ARGUMENTS(name, KIND)                                              \
  enum { SUM_STEPS_OF_##name, EACH_SUM(name, RULE_NUMBER) num_sums_of_##name }; \
  struct name##_rule {                                                          \
    struct rule_run run;                                                        \
    MEMBERS_OF_##name(RULE_INPUT, RULE_OUTPUT, NO_MEMBER, RULE_CONSTANT)        \
  };
RULES(RULE_ARGUMENTS)

enum { SUM_STEPS };

#define RULE_NAME(name, KIND) RULE_##name,
enum rule { RULES(RULE_NAME) NUM_RULES };

#endif
