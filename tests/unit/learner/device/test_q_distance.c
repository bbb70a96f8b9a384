/* action_values_distance on every device: by hand, against the definition on random heads, NaN. */
#include "tests/unit/learner/device/q_testing.h"

static float distance_of(struct testing *t, const float *a, const float *b,
                         const struct action_values *values, int stride, int B) {
  size_t count = (size_t)B * (size_t)stride;
  real *out = testing_room(t, 1);
  float distance;
  q_distance(t->device, out, testing_upload(t, a, count), testing_upload(t, b, count), stride,
             values, B);
  t->device->ops->download(t->device, &distance, out, 1);
  testing_release(t);
  return distance;
}

/* Rows of two actions, and a number behind them: |(3, 4)| / 8, |(1, 0)| / 2, and 0, as q_b is 0. */
static void by_hand(struct testing *t) {
  static const float a[] = {11, 2, 1, -1, 1, 5, 7, 7, 7}, b[] = {8, -2, 9, -2, 1, 3, 0, 0, 8};
  const struct action_values values = {.A = 2, .Z = 1};
  q_close("distance", t, distance_of(t, a, b, &values, 3, 3), (0.625 + 0.5) / 3, 1e-6);
  q_close("of two values", t, distance_of(t, a, b, &(struct action_values){.A = 1, .Z = 1}, 3, 3),
          (3.0 / 8 + 1.0 / 2) / 3, 1e-6);
  q_close("of equal heads", t, distance_of(t, a, a, &values, 3, 3), 0, 0);
}

static void nan_out(struct testing *t) {
  static const float values[] = {1, 2, NAN, 0};
  const struct action_values shape = {.A = 2, .Z = 1};
  assert_true(isnan(distance_of(t, values, values + 2, &shape, 2, 1)));
  assert_true(isnan(distance_of(t, values + 2, values, &shape, 2, 1)));
  assert_true(isnan(distance_of(t, values + 2, values + 2, &shape, 2, 1)));
}

/* The definition, on the values that epsilon_greedy reports for each action in turn. */
static double by_definition(struct testing *t, const float *a, const float *b,
                            const struct action_values *values, int stride, int B) {
  size_t rows = (size_t)B, A = (size_t)values->A;
  const float *heads[] = {a, b};
  float *q[2], *number = check_alloc(rows, sizeof(float)), *one = check_alloc(rows, sizeof(float));
  for (int k = 0; k < 2; k++) {
    q[k] = check_alloc(A * rows, sizeof(float));
    for (size_t action = 0; action < A; action++) {
      for (size_t i = 0; i < rows; i++) one[i] = 1, number[i] = ((float)action + 0.5f) / (float)A;
      void *actions = testing_bytes_room(t, rows * sizeof(int32_t)),
           *statistics = testing_bytes_room(t, 2 * rows * sizeof(float));
      q_choose(t->device, actions, statistics, testing_upload(t, heads[k], rows * (size_t)stride),
               stride, values, testing_bytes(t, number, rows * sizeof(float)),
               testing_bytes(t, one, rows * sizeof(float)), B);
      float *back = testing_bytes_back(t, statistics, 2 * rows * sizeof(float));
      for (size_t i = 0; i < rows; i++) q[k][action * rows + i] = back[2 * i];
      free(back);
      testing_release(t);
    }
  }
  double sum = 0;
  for (size_t i = 0; i < rows; i++) {
    double squares = 0, largest = 0;
    for (size_t k = i; k < A * rows; k += rows) {
      squares += pow((double)q[0][k] - (double)q[1][k], 2);
      largest = fmax(largest, fabs((double)q[1][k]));
    }
    sum += sqrt(squares) / largest;
  }
  float *all[] = {q[0], q[1], number, one};
  for (int i = 0; i < 4; i++) free(all[i]);
  return sum / B;
}

static void on_random_heads(struct testing *t) {
  uint64_t random = 61;
  for (int k = 0; k < 12; k++) {
    struct action_values values = {.A = 1 + testing_below(&random, 9),
                                   .Z = k % 3 ? 1 : 2 + testing_below(&random, 20),
                                   .dueling = testing_below(&random, 2),
                                   .low = 1,
                                   .high = 5};
    int B = 1 + testing_below(&random, 40), stride = q_outputs_size(&values) + k % 2;
    float *a = testing_floats(&random, (size_t)(B * stride), 2),
          *b = testing_floats(&random, (size_t)(B * stride), 2);
    q_close("random heads", t, distance_of(t, a, b, &values, stride, B),
            by_definition(t, a, b, &values, stride, B), 1e-5);
    free(a);
    free(b);
  }
}

static void test_by_hand(void **state) {
  (void)state;
  testing_each_device(by_hand);
}
static void test_nan(void **state) {
  (void)state;
  testing_each_device(nan_out);
}
static void test_random_heads(void **state) {
  (void)state;
  testing_each_device(on_random_heads);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_hand),
      cmocka_unit_test(test_nan),
      cmocka_unit_test(test_random_heads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
