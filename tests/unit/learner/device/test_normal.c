/* The normal policy: log-probability, entropy and gradients on every device against PyTorch in
 * float64 (tests/golden/algorithms/normal.py), and in double against finite differences; what is
 * drawn, against the distribution function of the C library; what environments get. */
#include "learner/learn/algorithms.h"
#include "learner/learn/policy.h"
#include "tests/unit/learner/device/device_testing.h"
#include "tests/unit/support/golden_cases.h"

enum { MAX_ROWS = 9, MAX_NUMBERS = 64, MAX = 3 * MAX_NUMBERS, VALUE = 77 };

/* Heads (B, mean | value | log_std), as a network's. */
static struct network_outputs heads(struct testing *t, const float *mean, const float *log_std,
                                    int B, int A) {
  int stride = 2 * A + 1;
  float head[MAX_ROWS * (2 * MAX_NUMBERS + 1)];
  for (int b = 0; b < B; b++) {
    memcpy(head + b * stride, mean + b * A, (size_t)A * sizeof(float));
    head[b * stride + A] = VALUE;
    memcpy(head + b * stride + A + 1, log_std + b * A, (size_t)A * sizeof(float));
  }
  return (struct network_outputs){
      .head = testing_upload(t, head, (size_t)(B * stride)), .size = A, .stride = stride};
}

static void compare(const struct testing *t, const struct golden_cases *golden, const char *name,
                    const float *got, int stride, int B, int A) {
  bool exact = t->device->ops->real_bytes == sizeof(double);
  const double *expected = golden_numbers(golden, name, (size_t)(B * A));
  for (int b = 0; b < B; b++)
    for (int a = 0; a < A; a++) {
      double y = expected[b * A + a], x = (double)got[b * stride + a];
      if (!(fabs(x - y) <= (exact ? 1e-6 : 1e-5) * fmax(1, fabs(y))))
        fail_msg("%s, %s: %s of row %d, number %d is %.9g, not %.9g", t->device->description,
                 golden->name, name, b, a, x, y);
    }
}

static const float *floats(const struct golden_cases *golden, const char *name, int n) {
  return golden_floats(golden, name, (size_t)n);
}

static void check_case(struct testing *t, const struct golden_cases *golden) {
  int B, A;
  assert_int_equal(sscanf(golden->name, "%dx%d", &B, &A), 2);
  size_t rows = (size_t)B;
  struct network_outputs out =
      heads(t, floats(golden, "mean", B * A), floats(golden, "log_std", B * A), B, A);
  const void *action =
      testing_bytes(t, floats(golden, "action", B * A), rows * (size_t)A * sizeof(float));
  const real *d_log_prob = testing_upload(t, floats(golden, "d_log_prob", B), rows);
  const real *d_entropy = testing_upload(t, floats(golden, "d_entropy", B), rows);
  real *log_prob = testing_room(t, rows), *entropy = testing_room(t, rows);
  real *d_head = testing_zeros(t, rows * (size_t)out.stride);
  policy_normal.evaluate(t->device, log_prob, entropy, &out, action, B);
  policy_normal.backward(t->device, d_head, &out, action, d_log_prob, d_entropy, B);
  float *got[] = {testing_back(t, log_prob, rows), testing_back(t, entropy, rows),
                  testing_back(t, d_head, rows * (size_t)out.stride)};
  compare(t, golden, "log_prob", got[0], 1, B, 1);
  compare(t, golden, "entropy", got[1], 1, B, 1);
  compare(t, golden, "d_mean", got[2], out.stride, B, A);
  compare(t, golden, "d_log_std", got[2] + A + 1, out.stride, B, A);
  for (int b = 0; b < B; b++) assert_true(got[2][b * out.stride + A] == 0); /* the value's */
  for (int i = 0; i < 3; i++) free(got[i]);
  testing_release(t);
}

static void check_golden(struct testing *t) {
  static struct golden_cases golden;
  golden_open(&golden, "tests/golden/algorithms/normal.txt");
  int cases = 0;
  for (; golden_next(&golden); cases++) check_case(t, &golden);
  assert_int_equal(cases, 4);
}

static void it_scores_as_pytorch_does(void **state) {
  (void)state;
  testing_each_device(check_golden);
}

/* ---- finite differences, in double: memory of ref_double is the host's */

enum { B = 4, A = 3, STRIDE = 2 * A + 1 };

struct world {
  struct device *device;
  double head[B * STRIDE], log_prob[B], entropy[B], d_log_prob[B], d_entropy[B];
  float action[B * A];
};

static struct network_outputs outputs(struct world *w) {
  return (struct network_outputs){.head = (real *)w->head, .size = A, .stride = STRIDE};
}

static double weighted(struct world *w) {
  struct network_outputs out = outputs(w);
  double sum = 0;
  policy_normal.evaluate(w->device, (real *)w->log_prob, (real *)w->entropy, &out, w->action, B);
  for (int b = 0; b < B; b++)
    sum += w->d_log_prob[b] * w->log_prob[b] + w->d_entropy[b] * w->entropy[b];
  return sum;
}

static void gradients_match_finite_differences(void **state) {
  (void)state;
  const double e = 1e-6;
  uint64_t random = 5;
  struct world w = {.device = device_ref_double_create()};
  double d_head[B * STRIDE] = {0};
  for (int i = 0; i < B * STRIDE; i++) w.head[i] = 2 * (double)testing_uniform(&random) - 1;
  for (int i = 0; i < B * A; i++) w.action[i] = 4 * testing_uniform(&random) - 2;
  for (int b = 0; b < B; b++) {
    w.d_log_prob[b] = (double)testing_uniform(&random);
    w.d_entropy[b] = (double)testing_uniform(&random);
  }
  struct network_outputs out = outputs(&w);
  policy_normal.backward(w.device, (real *)d_head, &out, w.action, (real *)w.d_log_prob,
                         (real *)w.d_entropy, B);
  for (int i = 0; i < B * STRIDE; i++) {
    double at = w.head[i];
    w.head[i] = at + e;
    double above = weighted(&w);
    w.head[i] = at - e;
    double difference = (above - weighted(&w)) / (2 * e);
    w.head[i] = at;
    if (!(fabs(difference - d_head[i]) < 1e-7))
      fail_msg("output %d: finite difference %.10g, gradient %.10g", i, difference, d_head[i]);
  }
  device_destroy(w.device);
}

/* ---- drawn */

static double below(double z) {
  return erfc(-z / sqrt(2)) / 2;
}

/* The middle of a uniform number's step of 2^-24 is the share of numbers below the one drawn; a
 * greedy row is the mean. */
static void check_drawn(struct testing *t) {
  enum { ROWS = 9, N = 2 };
  static const float uniform[ROWS * N] = {
      0,          1 - 0x1p-24f, 0.5f,  0.25f, 0x1p-24f, 0.9f, 0x1p-12f, 1 - 0x1p-12f, 0.75f,
      0.0078125f, 0.003f,       0.99f, 0.49f, 0.51f,    0.1f, 0.7f,     -1,           -1};
  float mean[ROWS * N], log_std[ROWS * N];
  for (int i = 0; i < ROWS * N; i++) mean[i] = (float)i / 8, log_std[i] = (float)(i % 5 - 2) / 4;
  struct network_outputs out = heads(t, mean, log_std, ROWS, N);
  float *action_d = testing_bytes_room(t, sizeof(uniform));
  float *log_prob_d = testing_bytes_room(t, ROWS * sizeof(float));
  const struct policy_rows rows = {.uniform = testing_bytes(t, uniform, sizeof(uniform))};
  policy_normal.choose(t->device, action_d, log_prob_d, &out, &rows, ROWS);
  float *action = testing_bytes_back(t, action_d, sizeof(uniform));
  float *log_prob = testing_bytes_back(t, log_prob_d, ROWS * sizeof(float));
  for (int b = 0; b < ROWS; b++) {
    double sum = 0;
    for (int i = N * b; i < N * (b + 1); i++) {
      double z = ((double)action[i] - (double)mean[i]) / exp((double)log_std[i]);
      double u = (double)uniform[i] + 0x1p-25, tail = u < 0.5 ? below(z) : below(-z);
      double expected = u < 0.5 ? u : 1 - u;
      if (u < 0 ? z != 0 : !(fabs(tail - expected) < 2e-5 * expected))
        fail_msg("%s: uniform %.9g draws %.9g deviations, beyond which lie %.9g",
                 t->device->description, (double)uniform[i], z, tail);
      sum -= z * z / 2 + (double)log_std[i] + log(2 * acos(-1)) / 2;
    }
    assert_true(fabs((double)log_prob[b] - sum) < 1e-4);
  }
  free(action);
  free(log_prob);
  testing_release(t);
}

static void it_draws_by_the_distribution(void **state) {
  (void)state;
  testing_each_device(check_drawn);
}

/* ---- sent */

/* Bounds are reached at -1 and 1 and never left; those that are no scale only clip. */
static void environments_get_what_is_in_bounds(void **state) {
  (void)state;
  static const struct {
    float low, high, chosen, sent;
  } cases[] = {{-2, 2, 0, 0},        {-2, 2, 0.5f, 1},    {-2, 2, 1, 2},
               {-2, 2, 1.5f, 2},     {-2, 2, -7, -2},     {0, 10, 0, 5},
               {0, 10, -1, 0},       {7, 7, 0.3f, 7},     {-INFINITY, INFINITY, 3.25f, 3.25f},
               {0, INFINITY, -1, 0}, {0, INFINITY, 4, 4}, {-3e38f, 3e38f, 0.5f, 0.5f},
               {-2, 2, INFINITY, 2}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct space space = {.box = 1, .low = {cases[i].low}, .high = {cases[i].high}};
    float sent;
    policy_normal.send(&sent, &cases[i].chosen, &space);
    if (sent != cases[i].sent)
      fail_msg("%g in %g..%g is sent as %g, not %g", (double)cases[i].chosen, (double)cases[i].low,
               (double)cases[i].high, (double)sent, (double)cases[i].sent);
  }
  uint64_t random = 3;
  for (int i = 0; i < 100000; i++) { /* rounding */
    float a = 100 * testing_uniform(&random) - 50, b = a + 10 * testing_uniform(&random), sent;
    float chosen[2] = {i % 2 ? 1 : -1, testing_uniform(&random) * 2 - 1};
    struct space space = {.box = 1, .low = {a}, .high = {b}};
    for (int k = 0; k < 2; k++) {
      policy_normal.send(&sent, &chosen[k], &space);
      assert_true(sent >= a && sent <= b);
    }
  }
  float not_a_number = NAN, sent;
  policy_normal.send(&sent, &not_a_number, &(struct space){.box = 1, .low = {-1}, .high = {1}});
  assert_true(isnan(sent));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_scores_as_pytorch_does),
      cmocka_unit_test(gradients_match_finite_differences),
      cmocka_unit_test(it_draws_by_the_distribution),
      cmocka_unit_test(environments_get_what_is_in_bounds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
