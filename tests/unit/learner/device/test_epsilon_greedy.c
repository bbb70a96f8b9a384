/* epsilon_greedy: thresholds, shares of the actions and values by hand on every device, and cpu
 * against ref on random heads. */
#include "tests/unit/learner/device/q_testing.h"

static void choose_actions(struct testing *t, int32_t **action, float **statistics,
                           const struct action_values *values, const float *head,
                           const float *uniform, const float *epsilon, int B) {
  size_t rows = (size_t)B, stride = (size_t)q_outputs_size(values);
  int32_t *action_d = testing_bytes_room(t, rows * sizeof(int32_t));
  float *statistics_d = testing_bytes_room(t, 2 * rows * sizeof(float));
  q_choose(t->device, action_d, statistics_d, testing_upload(t, head, rows * stride), (int)stride,
           values, testing_bytes(t, uniform, rows * sizeof(float)),
           testing_bytes(t, epsilon, rows * sizeof(float)), B);
  *action = testing_bytes_back(t, action_d, rows * sizeof(int32_t));
  *statistics = testing_bytes_back(t, statistics_d, 2 * rows * sizeof(float));
  testing_release(t);
}

#define BELOW(x) ((x)-0x1p-25f) /* for x in 1/4..1/2: the next float below */

static const struct {
  float uniform, epsilon;
  int32_t action; /* of 4; the greedy one is 2 */
} choices[] = {{0, 0.5f, 0},
               {BELOW(0.25f) / 2, 0.5f, 0},
               {0.125f, 0.5f, 1},
               {0.25f, 0.5f, 2},
               {0.375f, 0.5f, 3},
               {BELOW(0.5f), 0.5f, 3},
               {0.5f, 0.5f, 2},
               {0.75f, 0.5f, 2},
               {0, 0, 2},
               {0.75f, 0, 2},
               {0, 1, 0},
               {1 - 0x1p-24f, 1, 3},
               {-1, 1, 2},
               {-1, 0, 2},
               {-0x1p-24f, 0.5f, 2},
               {0, 1e-3f, 0},
               {1e-3f, 1e-3f, 2},
               {9.99e-4f, 1e-3f, 3},
               {0x1p-24f, 1e-3f, 0},
               {2e-3f, 1e-3f, 2}};

static void check_choices(struct testing *t) {
  enum { B = sizeof choices / sizeof *choices };
  static const float values[4] = {-1, 0.5f, 7, 7}; /* of equals the first */
  float head[4 * B], uniform[B], epsilon[B], *statistics;
  int32_t *action;
  for (int b = 0; b < B; b++) {
    memcpy(head + 4 * b, values, sizeof values);
    uniform[b] = choices[b].uniform, epsilon[b] = choices[b].epsilon;
  }
  choose_actions(t, &action, &statistics, &(struct action_values){.A = 4, .Z = 1}, head, uniform,
                 epsilon, B);
  for (int b = 0; b < B; b++) {
    if (action[b] != choices[b].action)
      fail_msg("%s: uniform %.9g, epsilon %g: action %d, not %d", t->device->description,
               (double)uniform[b], (double)epsilon[b], (int)action[b], (int)choices[b].action);
    q_close("value", t, statistics[2 * b], (double)values[action[b]], 0);
    q_close("largest value", t, statistics[2 * b + 1], 7, 0);
  }
  free(action);
  free(statistics);
}

/* Over a grid of uniforms every action comes equally often, whatever their number. */
static void check_shares(struct testing *t) {
  enum { GRID = 1 << 11, MAX_A = 18 };
  static float uniform[GRID], epsilon[GRID], head[GRID * MAX_A];
  for (int A = 1; A <= MAX_A; A++) {
    int count[MAX_A + 1] = {0}; /* the last: greedy */
    float *statistics;
    int32_t *action;
    for (int b = 0; b < GRID; b++) uniform[b] = (float)b / GRID, epsilon[b] = 0.375f;
    choose_actions(t, &action, &statistics, &(struct action_values){.A = A, .Z = 1}, head, uniform,
                   epsilon, GRID);
    for (int b = 0; b < GRID; b++) {
      assert_in_range(action[b], 0, A - 1);
      count[uniform[b] < epsilon[b] ? action[b] : MAX_A]++;
    }
    for (int a = 0; a < A; a++) assert_true(abs(count[a] - 3 * GRID / 8 / A) <= 1);
    assert_int_equal(count[MAX_A], GRID - 3 * GRID / 8);
    free(action);
    free(statistics);
  }
}

/* V = 2 and A = (1, 3) are Q = (1, 3); a distribution's value is its mean. */
static void check_values(struct testing *t) {
  const float uniform[] = {0.25f, -1}, epsilon[] = {1, 1};
  const float dueling[] = {1, 3, 2, 1, 3, 2},
              distributions[] = {0, 0, 0, logf(3), 0, 0, 0, logf(3)};
  float *statistics;
  int32_t *action;
  choose_actions(t, &action, &statistics, &(struct action_values){.A = 2, .Z = 1, .dueling = true},
                 dueling, uniform, epsilon, 2);
  assert_int_equal(action[0], 0);
  assert_int_equal(action[1], 1);
  for (int i = 0; i < 4; i++) q_close("dueling", t, statistics[i], i == 0 ? 1 : 3, 1e-6);
  free(action);
  free(statistics);
  choose_actions(t, &action, &statistics,
                 &(struct action_values){.A = 2, .Z = 2, .low = -1, .high = 1}, distributions,
                 uniform, epsilon, 2);
  for (int i = 0; i < 4; i++) q_close("means", t, statistics[i], i == 0 ? 0 : 0.5, 1e-6);
  free(action);
  free(statistics);
}

/* ---- cpu against ref */

static void compare_choices(struct testing *cpu, struct testing *ref) {
  uint64_t random = 31;
  for (int k = 0; k < testing_cases(60); k++) {
    struct action_values values = {.A = 1 + testing_below(&random, 20),
                                   .Z = k % 2 ? 1 : 2 + testing_below(&random, 50),
                                   .dueling = testing_below(&random, 2),
                                   .low = -3,
                                   .high = 5};
    int B = 1 + testing_below(&random, 40);
    size_t rows = (size_t)B;
    float *head = testing_floats(&random, rows * (size_t)q_outputs_size(&values), 3),
          *uniform = testing_floats(&random, rows, 1), *epsilon = testing_floats(&random, rows, 1);
    int32_t *got, *expected;
    float *got_statistics, *expected_statistics;
    choose_actions(cpu, &got, &got_statistics, &values, head, uniform, epsilon, B);
    choose_actions(ref, &expected, &expected_statistics, &values, head, uniform, epsilon, B);
    assert_memory_equal(got, expected, rows * sizeof *got);
    for (size_t i = 0; i < 2 * rows; i++)
      q_close("statistics", cpu, got_statistics[i], (double)expected_statistics[i], 5e-6);
    void *all[] = {head, uniform, epsilon, got, expected, got_statistics, expected_statistics};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  }
}

static void test_choices(void **state) {
  (void)state;
  testing_each_device(check_choices);
}
static void test_shares(void **state) {
  (void)state;
  testing_each_device(check_shares);
}
static void test_values(void **state) {
  (void)state;
  testing_each_device(check_values);
}
static void test_cpu_against_ref(void **state) {
  (void)state;
  testing_each_set(compare_choices);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_choices),
      cmocka_unit_test(test_shares),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_cpu_against_ref),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
