/* q_loss against PyTorch in float64 (tests/golden/algorithms/q_loss.py), numbers and distributions:
 * on ref_double digit by digit, on devices in float to a part of each array's largest number. */
#include "tests/unit/learner/device/q_testing.h"
#include "tests/unit/support/golden_cases.h"
#include "learner/device/create.h"

enum { CASES = 9 };

static int whole(const struct golden_cases *golden, const char *name) {
  return (int)golden_scalar(golden, name);
}

static float *copied(const struct golden_cases *golden, const char *name, size_t count) {
  float *x = check_alloc(count, sizeof *x);
  memcpy(x, golden_floats(golden, name, count), count * sizeof *x);
  return x;
}

static struct q_batch read_batch(const struct golden_cases *golden) {
  struct q_case loss = {.T = whole(golden, "T"),
                        .N = whole(golden, "N"),
                        .counted = whole(golden, "counted"),
                        .n_steps = whole(golden, "n_steps"),
                        .values = {.A = whole(golden, "A"),
                                   .Z = whole(golden, "Z"),
                                   .dueling = whole(golden, "dueling"),
                                   .low = golden_scalar(golden, "low"),
                                   .high = golden_scalar(golden, "high")},
                        .reduction = whole(golden, "over_time") ? LOSS_SUM_OVER_TIME : LOSS_MEAN,
                        .double_q = whole(golden, "double_q"),
                        .discount = golden_scalar(golden, "discount"),
                        .reward_scale = golden_scalar(golden, "reward_scale"),
                        .reward_clip = golden_scalar(golden, "reward_clip"),
                        .rescaling = golden_scalar(golden, "rescaling"),
                        .huber = golden_scalar(golden, "huber"),
                        .eta = golden_scalar(golden, "eta")};
  loss.stride = q_outputs_size(&loss.values);
  size_t rows = q_rows(&loss), numbers = rows * (size_t)loss.stride;
  return (struct q_batch){.loss = loss,
                          .online = copied(golden, "online", numbers),
                          .target = copied(golden, "target", numbers),
                          .reward = copied(golden, "reward", rows),
                          .weight = copied(golden, "weight", (size_t)loss.N),
                          .action = golden_integers(golden, "action", rows),
                          .flags = golden_bytes(golden, "flags", rows)};
}

/* n numbers of a device array; on ref_double, whose memory is the host's, with all their digits. */
static double *numbers_of(struct testing *t, const real *x, size_t n) {
  double *numbers = check_alloc(n, sizeof *numbers);
  if (t->device->ops->real_bytes == sizeof(double)) {
    memcpy(numbers, x, n * sizeof *numbers);
    return numbers;
  }
  float *host = check_alloc(n, sizeof *host);
  t->device->ops->download(t->device, host, x, n);
  for (size_t i = 0; i < n; i++) numbers[i] = (double)host[i];
  free(host);
  return numbers;
}

static void compare(const struct golden_cases *golden, struct testing *t, const char *name,
                    const double *got, size_t n, double tolerance) {
  const double *expected = golden_numbers(golden, name, n);
  double largest = 0;
  for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs(expected[i]));
  for (size_t i = 0; i < n; i++)
    if (!(fabs(got[i] - expected[i]) <= tolerance * largest))
      fail_msg("%s, case %s, %s: element %zu of %s is %.15g, expected %.15g", golden->path,
               golden->name, t->device->description, i, name, got[i], expected[i]);
}

static void compare_array(const struct golden_cases *golden, struct testing *t, const char *name,
                          const real *x, size_t n, double tolerance) {
  double *got = numbers_of(t, x, n);
  compare(golden, t, name, got, n, tolerance);
  free(got);
}

/* Priorities are floats on every device. */
static void compare_priorities(const struct golden_cases *golden, struct testing *t,
                               const float *priority, size_t N, double tolerance) {
  float *host = testing_bytes_back(t, priority, N * sizeof *host);
  double *got = check_alloc(N, sizeof *got);
  for (size_t n = 0; n < N; n++) got[n] = (double)host[n];
  compare(golden, t, "priority", got, N, fmax(tolerance, 1e-7));
  free(host);
  free(got);
}

static void check_case(const struct golden_cases *golden, struct testing *t, double tolerance) {
  struct q_batch batch = read_batch(golden);
  struct q_case loss;
  struct q_outputs out = q_upload(t, &loss, &batch);
  q_apply(t->device, out.dhead, out.td, out.priority, out.sums, &loss);
  compare_array(golden, t, "td", out.td, q_steps(&loss), tolerance);
  compare_array(golden, t, "dhead", out.dhead, q_steps(&loss) * (size_t)loss.stride, tolerance);
  compare_array(golden, t, "sums", out.sums, Q_SUMS, tolerance);
  compare_priorities(golden, t, out.priority, (size_t)loss.N, tolerance);
  double *sums = numbers_of(t, out.sums, Q_SUMS),
         over = loss.reduction == LOSS_MEAN ? sums[Q_SUM_STEPS] : loss.N,
         total = sums[Q_SUM_LOSS] / fmax(over, 1);
  compare(golden, t, "loss", &total, 1, tolerance);
  free(sums);
  q_batch_free(&batch);
  testing_release(t);
}

static void check_file(struct testing *t, double tolerance) {
  static struct golden_cases golden;
  int cases = 0;
  golden_open(&golden, "tests/golden/algorithms/q_loss.txt");
  for (; golden_next(&golden); cases++) check_case(&golden, t, tolerance);
  assert_int_equal(cases, CASES);
}

static void check_both(struct testing *cpu, struct testing *ref) {
  check_file(cpu, 1e-5);
  check_file(ref, 1e-5);
}

static void the_devices_compute_what_pytorch_computes(void **state) {
  (void)state;
  testing_each_set(check_both);
}

static void the_reference_in_double_is_closer(void **state) {
  (void)state;
  struct testing t = {.device = device_ref_double_create()};
  check_file(&t, 1e-12);
  device_destroy(t.device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_devices_compute_what_pytorch_computes),
      cmocka_unit_test(the_reference_in_double_is_closer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
