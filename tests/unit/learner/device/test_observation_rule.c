/* Running means and variances and what is normalised by them, on every device against numpy in
 * float64 (tests/golden/algorithms/observation.py); what is skipped; what never varies. */
#include "tests/unit/learner/device/device_testing.h"
#include "tests/unit/support/golden_cases.h"

enum { COUNT, MEAN, VARIANCE, NUM_STATISTICS };
static const char *const names[NUM_STATISTICS] = {"count", "mean", "variance"};

struct statistics {
  struct testing *t;
  int places;
  real *of[NUM_STATISTICS];
  real *mean, *squares, *skipped;
};

static struct statistics make(struct testing *t, int places, float skipped) {
  struct statistics s = {.t = t, .places = places};
  size_t F = (size_t)places;
  for (int i = 0; i < NUM_STATISTICS; i++) s.of[i] = testing_zeros(t, F);
  s.mean = testing_room(t, F);
  s.squares = testing_room(t, F);
  s.skipped = testing_upload(t, &skipped, 1);
  return s;
}

/* x (rows, places) */
static void take(struct statistics *s, const real *x, int rows, float most) {
  struct device *device = s->t->device;
  size_t F = (size_t)s->places;
  const struct moments_rule moments = {.run = {.rows = F, .A = rows, .columns = s->places},
                                       .numbers = {.x = x, .stride = 1},
                                       .mean = s->mean,
                                       .squares = s->squares};
  device->ops->run_rule(device, RULE_moments, &moments.run);
  const struct merge_moments_rule merge = {.run = {.rows = F},
                                           .count = s->of[COUNT],
                                           .mean = s->of[MEAN],
                                           .variance = s->of[VARIANCE],
                                           .batch_mean = s->mean,
                                           .batch_squares = s->squares,
                                           .skipped = s->skipped,
                                           .new_count = s->of[COUNT],
                                           .new_mean = s->of[MEAN],
                                           .new_variance = s->of[VARIANCE],
                                           .rows = (float)rows,
                                           .most = most};
  device->ops->run_rule(device, RULE_merge_moments, &merge.run);
}

/* x (rows, places), beside a number of each row that is none of them. */
static real *normalize(struct statistics *s, const real *x, int rows, float limit) {
  struct device *device = s->t->device;
  int stride = s->places + 1;
  real *y = testing_zeros(s->t, (size_t)(rows * stride));
  const struct normalize_rule rule = {
      .run = {.rows = (size_t)(rows * s->places), .columns = s->places},
      .number = {.x = x, .stride = s->places},
      .mean = {.x = s->of[MEAN]},
      .variance = {.x = s->of[VARIANCE]},
      .normalized = {.x = device_at(device, y, 1), .stride = stride},
      .limit = limit};
  device->ops->run_rule(device, RULE_normalize, &rule.run);
  return y;
}

/* n numbers; of ref_double, whose memory is the host's, with all their digits. */
static double *numbers_of(struct testing *t, const real *x, size_t n) {
  double *numbers = check_alloc(n, sizeof *numbers);
  float *host = testing_back(t, x, n);
  for (size_t i = 0; i < n; i++) numbers[i] = (double)host[i];
  if (t->device->ops->real_bytes == sizeof(double)) memcpy(numbers, x, n * sizeof *numbers);
  free(host);
  return numbers;
}

static void compare(struct testing *t, const struct golden_cases *golden, const char *what,
                    const double *got, double expected, double tolerance) {
  if (t->device->ops->real_bytes == sizeof(double)) tolerance = 1e-9;
  if (!(fabs(*got - expected) <= tolerance * fmax(1e-3, fabs(expected))))
    fail_msg("%s, case %s: %s is %.15g, not %.15g", t->device->description, golden->name, what,
             *got, expected);
}

static void compare_statistics(struct statistics *s, const struct golden_cases *golden, int batch,
                               int batches) {
  size_t F = (size_t)s->places;
  for (int i = 0; i < NUM_STATISTICS; i++) {
    const double *expected = golden_numbers(golden, names[i], (size_t)batches * F);
    double *got = numbers_of(s->t, s->of[i], F);
    for (size_t k = 0; k < F; k++)
      compare(s->t, golden, names[i], got + k, expected[(size_t)batch * F + k], 1e-5);
    free(got);
  }
}

/* In float a mean of 100 is right to 1e-5, a distance from it of 0.1 to 1e-4. */
static void compare_normalized(struct statistics *s, const struct golden_cases *golden,
                               const real *y, int rows) {
  size_t F = (size_t)s->places, stride = F + 1;
  const double *expected = golden_numbers(golden, "normalized", (size_t)rows * F);
  double *got = numbers_of(s->t, y, (size_t)rows * stride);
  for (size_t i = 0; i < (size_t)rows * F; i++)
    compare(s->t, golden, "normalized", got + i / F * stride + 1 + i % F, expected[i],
            fabs(expected[i]) < 1 ? 0.02 : 1e-4);
  for (size_t row = 0; row < (size_t)rows; row++) assert_true(got[row * stride] == 0);
  free(got);
}

static void check_case(struct testing *t, const struct golden_cases *golden) {
  int batches = (int)golden_scalar(golden, "batches"), rows = (int)golden_scalar(golden, "rows"),
      places = (int)golden_scalar(golden, "places");
  size_t numbers = (size_t)(rows * places);
  const float *x = golden_floats(golden, "x", (size_t)batches * numbers);
  struct statistics s = make(t, places, 0);
  real *of_batch = testing_room(t, numbers);
  for (int batch = 0; batch < batches; batch++) {
    t->device->ops->upload(t->device, of_batch, x + (size_t)batch * numbers, numbers);
    take(&s, of_batch, rows, golden_scalar(golden, "most"));
    compare_statistics(&s, golden, batch, batches);
  }
  compare_normalized(&s, golden, normalize(&s, of_batch, rows, 1.5f), rows);
  testing_release(t);
}

static void check_golden(struct testing *t) {
  static struct golden_cases golden;
  golden_open(&golden, "tests/golden/algorithms/observation.txt");
  int cases = 0;
  for (; golden_next(&golden); cases++) check_case(t, &golden);
  assert_int_equal(cases, 5);
}

static void statistics_are_those_of_all_numbers(void **state) {
  (void)state;
  testing_each_device(check_golden);
}

/* After a skipped update, bit for bit. */
static void check_skipped(struct testing *t) {
  enum { F = 19 };
  static const float x[F] = {1, 2, 3};
  for (int skips = 0; skips < 2; skips++) {
    struct statistics s = make(t, F, skips ? NAN : 0);
    take(&s, testing_upload(t, x, F), 1, 100);
    for (int i = 0; i < NUM_STATISTICS; i++) {
      float *got = testing_back(t, s.of[i], F);
      for (int k = 0; skips && k < F; k++) assert_true(got[k] == 0);
      if (!skips && i == MEAN) assert_memory_equal(got, x, sizeof x);
      free(got);
    }
    testing_release(t);
  }
}

static void a_skipped_update_moves_nothing(void **state) {
  (void)state;
  testing_each_device(check_skipped);
}

/* It is 0 exactly, however large it is, and another number after it is at the limit; before
 * anything was seen (variance 1) a number is itself. */
static void check_constant(struct testing *t) {
  enum { ROWS = 1001, F = 2 };
  float constant[ROWS * F], other[F] = {-1e9f, 3.25f};
  const float one[F] = {1, 1};
  for (int i = 0; i < ROWS; i++) constant[i * F] = 123456.789f, constant[i * F + 1] = 0.1f;
  struct statistics s = make(t, F, 0);
  const real *x = testing_upload(t, constant, ROWS * F), *y = testing_upload(t, other, F);
  t->device->ops->upload(t->device, s.of[VARIANCE], one, F);
  float *before = testing_back(t, normalize(&s, y, 1, 10), F + 1);
  for (int i = 0; i < 3; i++) take(&s, x, ROWS, 1 << 22);
  float *same = testing_back(t, normalize(&s, x, ROWS, 10), ROWS * (F + 1)),
        *after = testing_back(t, normalize(&s, y, 1, 10), F + 1);
  for (int i = 0; i < ROWS * (F + 1); i++) assert_true(same[i] == 0);
  assert_true(before[1] == -10 && fabs((double)before[2] - 3.25) < 1e-5);
  assert_true(after[1] == -10 && after[2] == 10);
  free(before);
  free(same);
  free(after);
  testing_release(t);
}

static void a_constant_number_is_zero(void **state) {
  (void)state;
  testing_each_device(check_constant);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statistics_are_those_of_all_numbers),
      cmocka_unit_test(a_skipped_update_moves_nothing),
      cmocka_unit_test(a_constant_number_is_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
