/* Noisy layers on every device: the factors against random_normal, forward and backward against the
 * formulas. */
#include "tests/unit/learner/device/device_testing.h"

#include "common/base/random.h"

static void close_to(const char *what, struct testing *t, float got, double expected) {
  if (!(fabs((double)got - expected) <= 1e-6 * (1 + fabs(expected))))
    fail_msg("%s, %s: %.9g, not %.9g", t->device->description, what, (double)got, expected);
}

static void check_factors(struct testing *t) {
  enum { N = 1000 };
  static const struct {
    uint64_t seed;
    uint32_t stream, first;
    int n;
  } table[] = {{1, 0, 0, N}, {1, 7, 3, 33}, {UINT64_MAX, 9, UINT32_MAX - 4, 20}, {2, 1, 5, 1}};
  float got[N + 1];
  for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
    int n = table[k].n;
    real *noise = testing_room(t, (size_t)n + 1);
    device_fill(t->device, noise, 5, (size_t)n + 1);
    t->device->ops->factor_noise(t->device, noise, table[k].seed, table[k].stream, table[k].first,
                                 n);
    t->device->ops->download(t->device, got, noise, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
      double x =
          random_normal(table[k].seed, table[k].stream, table[k].first + (uint32_t)i, RANDOM_NOISE);
      close_to("noise", t, got[i], x < 0 ? -sqrt(-x) : sqrt(x));
    }
    close_to("behind the noise", t, got[n], 5);
    testing_release(t);
  }
}

/* Their mean is 0, that of their magnitudes E sqrt(|x|) = 2^(1/4) Gamma(3/4) / sqrt(pi), and that
 * of their squares E |x| = sqrt(2 / pi). */
static void test_moments(void **state) {
  (void)state;
  enum { N = 1 << 16 };
  struct device *d = device_ref_double_create();
  double *noise = (double *)d->ops->alloc(d, N * sizeof(double));
  double mean = 0, magnitude = 0, square = 0;
  d->ops->factor_noise(d, (real *)noise, 3, 2, 0, N);
  for (int i = 0; i < N; i++) {
    mean += noise[i] / N;
    magnitude += fabs(noise[i]) / N;
    square += noise[i] * noise[i] / N;
  }
  assert_true(fabs(mean) < 0.01);
  assert_true(fabs(magnitude - 0.8221790) < 0.01);
  assert_true(fabs(square - 0.7978846) < 0.01);
  d->ops->release(d, noise);
  device_destroy(d);
}

/* A layer of I inputs, or a bias (in NULL). */
static void check_layer(struct testing *t, uint64_t *random, int I, int O, bool bias) {
  size_t count = (size_t)(I * O), inputs = (size_t)I, outputs = (size_t)O;
  float *mean = testing_floats(random, count, 2), *deviation = testing_floats(random, count, 2),
        *dy = testing_floats(random, count, 2), *in = testing_floats(random, inputs, 2),
        *out = testing_floats(random, outputs, 2), *got = check_alloc(2 * count, sizeof(float));
  const struct device_ops *ops = t->device->ops;
  real *y = testing_room(t, count), *d_deviation = testing_room(t, count),
       *in_d = bias ? NULL : testing_upload(t, in, inputs),
       *out_d = testing_upload(t, out, outputs);
  ops->noisy_forward(t->device, y, testing_upload(t, mean, count),
                     testing_upload(t, deviation, count), in_d, out_d, I, O);
  ops->noisy_backward(t->device, d_deviation, testing_upload(t, dy, count), in_d, out_d, I, O);
  ops->download(t->device, got, y, count);
  ops->download(t->device, got + count, d_deviation, count);
  for (size_t k = 0; k < count; k++) {
    double noise = (bias ? 1 : (double)in[k / outputs]) * (double)out[k % outputs];
    close_to("forward", t, got[k], (double)mean[k] + (double)deviation[k] * noise);
    close_to("backward", t, got[count + k], (double)dy[k] * noise);
  }
  float *all[] = {mean, deviation, dy, in, out, got};
  for (int i = 0; i < 6; i++) free(all[i]);
  testing_release(t);
}

static void check_layers(struct testing *t) {
  static const int sizes[][2] = {{1, 1}, {3, 7}, {17, 64}, {5, 100}, {64, 3}, {2, 16}};
  uint64_t random = 71;
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    check_layer(t, &random, sizes[k][0], sizes[k][1], false);
    check_layer(t, &random, 1, sizes[k][1], true);
  }
}

static void test_factors(void **state) {
  (void)state;
  testing_each_device(check_factors);
}
static void test_layers(void **state) {
  (void)state;
  testing_each_device(check_layers);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_factors),
      cmocka_unit_test(test_moments),
      cmocka_unit_test(test_layers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
