/* The CPU device's categorical distribution: against the reference device, exact inverse,
 * frequencies. */
#include "tests/unit/learner/device/categorical_testing.h"
#include "tests/unit/learner/device/device_testing.h"

/* Probabilities of one row, in double. */
static void probabilities(double *p, const float *logits, int A) {
  double largest = (double)logits[0], total = 0;
  for (int a = 1; a < A; a++) largest = fmax(largest, (double)logits[a]);
  for (int a = 0; a < A; a++) total += p[a] = exp((double)logits[a] - largest);
  for (int a = 0; a < A; a++) p[a] /= total;
}

/* Whether `action` is what u picks, allowing the rounding of a float sum. */
static int picks(const double *p, int A, double u, int action) {
  double below = 0;
  for (int a = 0; a < action; a++) below += p[a];
  double slack = 1e-6;
  return action >= 0 && action < A && u >= below - slack && u < below + p[action] + slack;
}

/* Numbers and actions on the host, of logits there. Owner: the caller, with free. */
struct sampled {
  int32_t *action;
  float *log_prob;
};

static struct sampled sample(struct testing *t, const float *logits, int stride, const float *u,
                             int B, int A) {
  size_t rows = (size_t)B;
  int32_t *action = testing_bytes_room(t, rows * sizeof *action);
  float *log_prob = testing_bytes_room(t, rows * sizeof *log_prob);
  categorical_sample(t->device, action, log_prob, testing_upload(t, logits, rows * (size_t)stride),
                     stride, testing_bytes(t, u, rows * sizeof *u), B, A);
  struct sampled sampled = {testing_bytes_back(t, action, rows * sizeof *action),
                            testing_bytes_back(t, log_prob, rows * sizeof *log_prob)};
  testing_release(t);
  return sampled;
}

static void sampled_free(struct sampled *sampled) {
  free(sampled->action);
  free(sampled->log_prob);
}

static void samples(struct testing *cpu, struct testing *ref) {
  (void)ref;
  uint64_t random = 7;
  for (int i = 0; i < testing_cases(40); i++) {
    int B = testing_size(&random), A = i < testing_cases(20) ? 1 + i % 6 : testing_size(&random),
        stride = A + i % 3;
    float *logits = testing_floats(&random, (size_t)B * (size_t)stride, 4);
    float *u = testing_floats(&random, (size_t)B, 0.9999f);
    double *p = check_alloc((size_t)A, sizeof *p);
    struct sampled got = sample(cpu, logits, stride, u, B, A);
    for (int b = 0; b < B; b++) {
      probabilities(p, logits + (size_t)b * (size_t)stride, A);
      int best = 0;
      for (int a = 1; a < A; a++) best = p[a] > p[best] ? a : best;
      int32_t action = got.action[b];
      assert_true(u[b] < 0 ? action == best : picks(p, A, (double)u[b], action));
      assert_true(fabs((double)got.log_prob[b] - log(p[action])) < 3e-6);
    }
    free(logits);
    free(u);
    free(p);
    sampled_free(&got);
  }
}

/* Logits log(1), log(2), log(1): the cumulative sums are 0.25, 0.75, 1, on a grid the test can
 * stand on. */
static void inverse_of_known_table(struct testing *cpu, struct testing *ref) {
  static const struct {
    float u;
    int32_t action;
  } table[] = {{0, 0},       {0.2499f, 0},        {0.2501f, 1}, {0.7499f, 1},
               {0.7501f, 2}, {0x1.fffffep-1f, 2}, {-1, 1}};
  enum { B = sizeof table / sizeof *table };
  float logits[3 * B], u[B];
  for (int b = 0; b < B; b++) {
    logits[3 * b] = logits[3 * b + 2] = 0;
    logits[3 * b + 1] = logf(2);
    u[b] = table[b].u;
  }
  struct testing *both[] = {cpu, ref};
  for (int k = 0; k < 2; k++) {
    struct sampled got = sample(both[k], logits, 3, u, B, 3);
    for (int b = 0; b < B; b++) {
      assert_int_equal(got.action[b], table[b].action);
      assert_true(fabs((double)got.log_prob[b] - log(table[b].action == 1 ? 0.5 : 0.25)) < 1e-6);
    }
    sampled_free(&got);
  }
}

/* Equal logits: the lowest index wins. A logit of minus infinity is never drawn, not even by u =
 * 0. */
static void ties_and_impossible_actions(struct testing *cpu, struct testing *ref) {
  struct testing *both[] = {cpu, ref};
  for (int k = 0; k < 2; k++) {
    float logits[2][4] = {{1, 3, 3, 0}, {-INFINITY, 2, -INFINITY, 2}}, u[2] = {-1, 0};
    struct sampled got = sample(both[k], logits[0], 4, u, 2, 4);
    assert_int_equal(got.action[0], 1);
    assert_int_equal(got.action[1], 1);
    assert_true(fabs((double)got.log_prob[1] - log(0.5)) < 1e-6);
    sampled_free(&got);
  }
}

/* Chi-square of 48,000 draws over 5 actions: 4 degrees of freedom, 1 in 10^5 beyond 28.5; the
 * seed is fixed. */
static void frequencies(struct testing *cpu, struct testing *ref) {
  (void)ref;
  enum { B = 480, ROUNDS = 100, A = 5 };
  static const float row[A] = {0.3f, -1.0f, 1.2f, 0.0f, -2.0f};
  uint64_t random = 99;
  static float logits[B * A], u[B];
  for (int b = 0; b < B; b++) memcpy(logits + b * A, row, sizeof row);
  double p[A], count[A] = {0}, chi_square = 0;
  for (int i = 0; i < ROUNDS; i++) {
    for (int b = 0; b < B; b++) u[b] = testing_uniform(&random);
    struct sampled got = sample(cpu, logits, A, u, B, A);
    for (int b = 0; b < B; b++) count[got.action[b]] += 1;
    sampled_free(&got);
  }
  probabilities(p, row, A);
  for (int a = 0; a < A; a++) {
    double expected = p[a] * B * ROUNDS;
    chi_square += (count[a] - expected) * (count[a] - expected) / expected;
  }
  assert_true(chi_square < 28.5);
}

struct gradient_arrays {
  real *log_prob, *entropy, *dlogits;
};

static struct gradient_arrays evaluate(struct testing *t, int B, int A, int stride, uint64_t seed) {
  uint64_t random = seed;
  size_t count = (size_t)B * (size_t)stride;
  float *logits = testing_floats(&random, count, 5),
        *weights = testing_floats(&random, 2 * (size_t)B, 1);
  int32_t *action = check_alloc((size_t)B, sizeof *action);
  for (int b = 0; b < B; b++) action[b] = testing_below(&random, A + 2) - 1; /* some out of range */
  real *x = testing_upload(t, logits, count), *dlp = testing_upload(t, weights, (size_t)B);
  const int32_t *action_d = testing_bytes(t, action, (size_t)B * sizeof *action);
  real *dent = testing_upload(t, weights + B, (size_t)B);
  struct gradient_arrays a = {.log_prob = testing_room(t, (size_t)B),
                              .entropy = testing_room(t, (size_t)B),
                              .dlogits = testing_room(t, count)};
  categorical_evaluate(t->device, a.log_prob, a.entropy, x, stride, action_d, B, A);
  categorical_backward(t->device, a.dlogits, stride, x, stride, action_d, dlp, dent, B, A);
  free(logits);
  free(weights);
  free(action);
  return a;
}

static void evaluates(struct testing *cpu, struct testing *ref) {
  uint64_t random = 8;
  for (int i = 0; i < testing_cases(40); i++) {
    int B = testing_size(&random), A = i < testing_cases(20) ? 1 + i % 6 : testing_size(&random),
        stride = A + i % 2;
    struct gradient_arrays got = evaluate(cpu, B, A, stride, 50 + (uint64_t)i);
    struct gradient_arrays expected = evaluate(ref, B, A, stride, 50 + (uint64_t)i);
    testing_compare("log_prob", cpu, got.log_prob, ref, expected.log_prob, (size_t)B, 3e-6);
    testing_compare("entropy", cpu, got.entropy, ref, expected.entropy, (size_t)B, 3e-6);
    testing_compare("dlogits", cpu, got.dlogits, ref, expected.dlogits, (size_t)B * (size_t)stride,
                    3e-6);
    testing_release(cpu);
    testing_release(ref);
  }
}

static void test_samples(void **state) {
  (void)state;
  testing_each_set(samples);
}
static void test_inverse_of_known_table(void **state) {
  (void)state;
  testing_each_set(inverse_of_known_table);
}
static void test_ties_and_impossible_actions(void **state) {
  (void)state;
  testing_each_set(ties_and_impossible_actions);
}
static void test_frequencies(void **state) {
  (void)state;
  testing_each_set(frequencies);
}
static void test_evaluates(void **state) {
  (void)state;
  testing_each_set(evaluates);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_samples),
      cmocka_unit_test(test_inverse_of_known_table),
      cmocka_unit_test(test_ties_and_impossible_actions),
      cmocka_unit_test(test_frequencies),
      cmocka_unit_test(test_evaluates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
