/* Values of actions as the device reads them, and probabilities as it draws by them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/random.h"
#include "deploy/inspect/watch/action_values.h"

enum { MAX_ROW = 64, DRAWS = 1000 };

struct world {
  struct device *device;
  struct device_action_values layout;
  float head[MAX_ROW];
  float value[MAX_ROW];
};

/* ref computes on the host's memory. */
static struct world make_world(int A, int Z, bool dueling) {
  struct world world = {.layout = {A, Z, dueling, -2, 3}};
  struct error error;
  assert_int_equal(device_create(&world.device, "ref", &error), STATUS_OK);
  assert_true((A + 1) * Z <= MAX_ROW);
  for (int i = 0; i < (A + 1) * Z; i++)
    world.head[i] = 3 * random_uniform(7, 0, 0, (uint32_t)i, RANDOM_ACTION) - 1;
  action_values_read(world.value, world.head, &world.layout);
  return world;
}

/* What the device chooses for `uniform`; its statistics. */
static int choose(struct world *world, float uniform, float epsilon, float statistics[2]) {
  int32_t action;
  int stride = (world->layout.A + world->layout.dueling) * world->layout.Z;
  world->device->ops->epsilon_greedy(world->device, &action, statistics, (const real *)world->head,
                                     stride, &world->layout, &uniform, &epsilon, 1);
  return action;
}

static const struct {
  int A, Z;
  bool dueling;
} cases[] = {{2, 1, false}, {5, 1, true}, {1, 1, true}, {3, 11, false}, {4, 7, true}};
enum { NUM_CASES = sizeof(cases) / sizeof(*cases) };

static bool near(float a, float b) {
  float distance = a - b;
  return distance < 1e-5f && distance > -1e-5f;
}

static void values_are_those_of_the_device(void **state) {
  (void)state;
  for (int i = 0; i < NUM_CASES; i++) {
    struct world world = make_world(cases[i].A, cases[i].Z, cases[i].dueling);
    int A = cases[i].A;
    for (int a = 0; a < A; a++) {
      float statistics[2];
      /* With an epsilon of 1 the uniform names the action. */
      assert_int_equal(choose(&world, ((float)a + 0.5f) / (float)A, 1, statistics), a);
      assert_true(near(statistics[0], world.value[a]));
      assert_true(statistics[1] > world.value[a] - 1e-5f);
    }
    device_destroy(world.device);
  }
}

static void probabilities_are_the_shares_that_the_device_draws(void **state) {
  (void)state;
  for (int i = 0; i < NUM_CASES; i++) {
    struct world world = make_world(cases[i].A, cases[i].Z, cases[i].dueling);
    int A = cases[i].A, drawn[MAX_ROW] = {0};
    const float epsilon = 0.4f;
    float probability[MAX_ROW], statistics[2];
    action_values_probability(probability, world.value, A, epsilon);
    for (int k = 0; k < DRAWS; k++)
      drawn[choose(&world, ((float)k + 0.5f) / DRAWS, epsilon, statistics)]++;
    for (int a = 0; a < A; a++) {
      float share = (float)drawn[a] / DRAWS, difference = share - probability[a];
      assert_true(difference < 0.002f && difference > -0.002f);
    }
    device_destroy(world.device);
  }
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
      cmocka_unit_test(values_are_those_of_the_device),
      cmocka_unit_test(probabilities_are_the_shares_that_the_device_draws),
      cmocka_unit_test(ties_go_to_the_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
