/* The first priority of a window by hand; tests/unit/learner/device/test_q_priority.c compares it
 * with that of q_loss. */
#include "learner/experience/td_priority.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/step.h"

/* Value 0 throughout, so that TD is the return. */

enum { END = STEP_FIRST | STEP_TERMINATED };

static const struct {
  const char *name;
  int n_steps, counted;
  float eta, reward[4], largest[4];
  uint8_t flags[4];
  double expected;
} table[] = {
    {"the largest", 2, 3, 1, {9, 1, 2, 3}, {9, 100, 200, 300}, {0}, 273},
    {"the mean", 2, 3, 0, {9, 1, 2, 3}, {9, 100, 200, 300}, {0}, (164.8 + 247.7 + 273) / 3},
    {"both", 1, 3, 0.75f, {9, 1, 2, 3}, {9, 100, 200, 300}, {0}, 0.75 * 273 + 0.25 * 182},
    {"terminated", 1, 3, 0, {9, 1, 2, 3}, {9, 100, 200, 300}, {0, 0, END}, (91 + 2 + 273) / 3.0},
    {"truncated",
     3,
     3,
     0,
     {9, 1, 2, 0},
     {9, 100, 200, 300},
     {0, 0, STEP_TRUNCATED, STEP_FIRST},
     (164.8 + 182) / 2},
    {"the first alone counts", 2, 1, 0, {9, 1, 2, 3}, {9, 100, 200, 300}, {0}, 164.8},
    {"none counts", 2, 1, 1, {9, 1, 2, 3}, {9, 100, 200, 300}, {STEP_TRUNCATED, STEP_FIRST}, 0},
    {"NaN in a reward", 2, 3, 1, {9, 1, NAN, 3}, {9, 100, 200, 300}, {0}, NAN},
    {"NaN in a value", 2, 3, 1, {9, 1, 2, 3}, {9, 100, 200, NAN}, {0}, NAN},
    {"NaN that nothing reads", 3, 3, 1, {9, 1, 2, 3}, {NAN, NAN, 200, 300}, {0, 0, 0, END}, 5.23},
};

static void test_by_hand(void **state) {
  (void)state;
  static const float value[4] = {0};
  for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
    struct td_priority_config config = {.T = 3,
                                        .counted = table[k].counted,
                                        .n_steps = table[k].n_steps,
                                        .discount = 0.9f,
                                        .reward_scale = 1,
                                        .eta = table[k].eta};
    double got = (double)td_priority(&config, value, table[k].largest, table[k].reward,
                                     table[k].flags),
           expected = table[k].expected;
    if (isnan(expected) ? !isnan(got) : !(fabs(got - expected) <= 1e-6 * (1 + expected)))
      fail_msg("%s: %.9g, not %.9g", table[k].name, got, expected);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_hand)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
