/* Epsilons against the values of the paper's formula, computed in Python. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "learner/learn/exploration.h"
#include "tests/unit/support/aborts.h"

static struct exploration per_environment(int environments) {
  return (struct exploration){.kind = EXPLORATION_PER_ENVIRONMENT,
                              .environments = environments,
                              .start = 0.4,
                              .end = 0.05,
                              .steps = 1000,
                              .evaluation = 1e-3};
}

static void expect(const struct exploration *exploration, int environment, int64_t steps,
                   double epsilon) {
  double is = exploration_epsilon(exploration, environment, steps);
  if (!(fabs(is - epsilon) <= 5.1e-7))
    fail_msg("environment %d, step %d: %.7f, not %.7f", environment, (int)steps, is, epsilon);
}

static void each_environment_has_its_own(void **state) {
  (void)state;
  static const struct {
    int environments, environment;
    double epsilon;
  } rows[] = {
      {4, 0, .4},
      {4, 1, .047156},
      {4, 2, .005559},
      {4, 3, .000655},
      {10, 0, .4},
      {10, 1, .196133},
      {10, 2, .096171},
      {10, 3, .047156},
      {10, 4, .023122},
      {10, 5, .011337},
      {10, 9, .000655},
      {256, 0, .4},
      {256, 1, .390064},
      {256, 2, .380375},
      {256, 255, .000655},
      // more environments than were expected; only one
      {4, 4, .000655},
      {4, 1000, .000655},
      {1, 0, .4},
      {1, 7, .4},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    struct exploration exploration = per_environment(rows[i].environments);
    expect(&exploration, rows[i].environment, 0, rows[i].epsilon);
    expect(&exploration, rows[i].environment, 123456, rows[i].epsilon);
  }
}

static void linear_goes_from_start_to_end(void **state) {
  (void)state;
  struct exploration exploration = per_environment(4);
  exploration.kind = EXPLORATION_LINEAR;
  exploration.start = 1;
  for (int environment = 0; environment < 4; environment++) {
    expect(&exploration, environment, 0, 1);
    expect(&exploration, environment, 100, 0.905);
    expect(&exploration, environment, 500, 0.525);
    expect(&exploration, environment, 999, 0.05095);
    expect(&exploration, environment, 1000, 0.05);
    expect(&exploration, environment, 1500, 0.05);
    expect(&exploration, environment, INT64_MAX, 0.05);
  }
  exploration.steps = 0;
  expect(&exploration, 0, 0, 0.05);
}

static void constant_stays(void **state) {
  (void)state;
  struct exploration exploration = per_environment(4);
  exploration.kind = EXPLORATION_CONSTANT;
  for (int environment = 0; environment < 6; environment++) {
    expect(&exploration, environment, 0, 0.4);
    expect(&exploration, environment, 1000000, 0.4);
  }
}

static void evaluation_has_its_own_whatever_the_kind(void **state) {
  (void)state;
  struct exploration exploration = per_environment(4);
  for (int kind = EXPLORATION_PER_ENVIRONMENT; kind <= EXPLORATION_CONSTANT; kind++) {
    exploration.kind = (enum exploration_kind)kind;
    assert_true(exploration_evaluation_epsilon(&exploration) == 1e-3f);
  }
}

static void the_mean_is_over_the_environments_that_are_expected(void **state) {
  (void)state;
  struct exploration exploration = per_environment(3);
  double each = pow(0.4, 1) + pow(0.4, 4.5) + pow(0.4, 8);
  assert_true(fabs(exploration_mean_epsilon(&exploration, 7) - each / 3) < 1e-7);
  exploration.kind = EXPLORATION_LINEAR;
  exploration.start = 1;
  assert_true(fabs(exploration_mean_epsilon(&exploration, 500) - 0.525) < 1e-7);
}

static void misuse(void *subject, int what) {
  struct exploration *exploration = subject;
  if (what == 2) exploration->kind = (enum exploration_kind)99;
  exploration_epsilon(exploration, what == 0 ? -1 : 0, what == 1 ? -1 : 0);
}

static void misuse_aborts(void **state) {
  (void)state;
  struct exploration exploration = per_environment(4);
  for (int what = 0; what < 3; what++) assert_true(aborts(misuse, &exploration, what));
  assert_false(aborts(misuse, &exploration, 3));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_environment_has_its_own),
      cmocka_unit_test(linear_goes_from_start_to_end),
      cmocka_unit_test(constant_stays),
      cmocka_unit_test(evaluation_has_its_own_whatever_the_kind),
      cmocka_unit_test(the_mean_is_over_the_environments_that_are_expected),
      cmocka_unit_test(misuse_aborts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
