/* q_loss: cpu against ref on random ragged batches, and its gradient against finite differences in
 * double. */
#include "tests/unit/learner/device/q_testing.h"
#include "learner/device/create.h"

/* ---- cpu against ref */

static void compare(const char *what, struct testing *cpu, const float *got, const float *expected,
                    size_t n, double tolerance) {
  for (size_t i = 0; i < n; i++) q_close(what, cpu, got[i], (double)expected[i], tolerance);
}

static void compare_batch(struct testing *cpu, struct testing *ref, const struct q_batch *batch) {
  struct q_results got = q_run(cpu, batch), expected = q_run(ref, batch);
  size_t steps = q_steps(&batch->loss);
  compare("dhead", cpu, got.dhead, expected.dhead, steps * (size_t)batch->loss.stride, 1e-5);
  compare("td", cpu, got.td, expected.td, steps, 2e-5);
  compare("priority", cpu, got.priority, expected.priority, (size_t)batch->loss.N, 2e-5);
  compare("sums", cpu, got.sums, expected.sums, Q_SUMS, 2e-5);
  q_results_free(&got);
  q_results_free(&expected);
}

static void numbers(struct testing *cpu, struct testing *ref) {
  uint64_t random = 51;
  for (int k = 0; k < testing_cases(300); k++) {
    struct q_batch batch = q_random_batch(&random, 13, 19, 1);
    compare_batch(cpu, ref, &batch);
    q_batch_free(&batch);
  }
}

static void distributions(struct testing *cpu, struct testing *ref) {
  uint64_t random = 52;
  for (int k = 0; k < testing_cases(40); k++) {
    struct q_batch batch = q_random_batch(&random, k % 8 ? 4 : 13, 19, k % 2 ? 51 : 12);
    compare_batch(cpu, ref, &batch);
    q_batch_free(&batch);
  }
}

/* ---- finite differences: with target values and returns held constant, the loss depends on the
 * heads of the first T rows in nothing but Q(x_t, a_t) */

static double loss_of(struct testing *t, const struct q_case *loss, const struct q_outputs *out) {
  q_apply(t->device, out->dhead, out->td, out->priority, out->sums, loss);
  const double *sums = (const double *)out->sums;
  if (loss->reduction == LOSS_SUM_OVER_TIME) return sums[Q_SUM_LOSS] / loss->N;
  return sums[Q_SUM_STEPS] > 0 ? sums[Q_SUM_LOSS] / sums[Q_SUM_STEPS] : 0;
}

static void check_gradient(struct testing *t, const struct q_batch *batch) {
  const double step = 1e-5;
  struct q_case loss;
  struct q_outputs out = q_upload(t, &loss, batch);
  size_t count = q_steps(&loss) * (size_t)loss.stride;
  double *x = (double *)loss.online, *gradient = check_alloc(count, sizeof *gradient);
  loss_of(t, &loss, &out);
  memcpy(gradient, out.dhead, count * sizeof *gradient);
  for (size_t i = 0; i < count; i++) {
    double kept = x[i];
    x[i] = kept + step;
    double above = loss_of(t, &loss, &out);
    x[i] = kept - step;
    double slope = (above - loss_of(t, &loss, &out)) / (2 * step);
    x[i] = kept;
    if (!(fabs(slope - gradient[i]) <= 1e-6 * fmax(fabs(slope), 1e-2)))
      fail_msg("gradient %zu is %.12g, differences give %.12g", i, gradient[i], slope);
  }
  free(gradient);
  testing_release(t);
}

static void test_gradient(void **state) {
  (void)state;
  struct testing t = {.device = device_ref_double_create()};
  uint64_t random = 53;
  for (int k = 0; k < testing_cases(60); k++) {
    struct q_batch batch = q_random_batch(&random, 4, 3, k % 2 ? 1 : 6);
    check_gradient(&t, &batch);
    q_batch_free(&batch);
  }
  device_destroy(t.device);
}

static void test_numbers(void **state) {
  (void)state;
  testing_each_set(numbers);
}
static void test_distributions(void **state) {
  (void)state;
  testing_each_set(distributions);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_distributions),
      cmocka_unit_test(test_gradient),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
