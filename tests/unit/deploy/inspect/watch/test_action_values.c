/* Probabilities of actions are those with which the device draws them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/random.h"
#include "deploy/inspect/watch/action_values.h"
#include "learner/device/create.h"
#include "learner/network/action_values.h"

enum { MAX_A = 8, DRAWS = 1000 };

static bool near(float a, float b) {
  float distance = a - b;
  return distance < 1e-5f && distance > -1e-5f;
}

/* ref computes on the host's memory. masked: every second action may not be chosen. */
static void check_shares(bool masked) {
  struct device *device = device_ref_float_create();
  const float epsilon = 0.4f;
  for (int A = 1; A <= MAX_A; A++) {
    int drawn[MAX_A] = {0};
    float probability[MAX_A], value[MAX_A], statistics[2];
    for (int a = 0; a < A; a++)
      value[a] = masked && a % 2 ? MASKED : random_uniform(7, 0, 0, (uint32_t)a, RANDOM_ACTION);
    action_values_probability(probability, value, A, epsilon);
    for (int k = 0; k < DRAWS; k++) {
      int32_t action;
      float uniform = ((float)k + 0.5f) / DRAWS;
      action_values_choose(device, &action, statistics, (const real *)value, &uniform, &epsilon, 1,
                           A);
      drawn[action]++;
    }
    for (int a = 0; a < A; a++) {
      float difference = (float)drawn[a] / DRAWS - probability[a];
      assert_true(difference < 0.002f && difference > -0.002f);
    }
  }
  device_destroy(device);
}

static void probabilities_are_the_shares_that_the_device_draws(void **state) {
  (void)state;
  check_shares(false);
  check_shares(true);
}

/* The first of several that are best. */
static void ties_go_to_the_first(void **state) {
  (void)state;
  const float value[] = {-1, 2, 2};
  float probability[3];
  action_values_probability(probability, value, 3, 0.3f);
  assert_true(near(probability[0], 0.1f) && near(probability[1], 0.8f));
  action_values_probability(probability, value, 3, 0);
  assert_true(probability[0] == 0 && probability[1] == 1 && probability[2] == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(probabilities_are_the_shares_that_the_device_draws),
      cmocka_unit_test(ties_go_to_the_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
