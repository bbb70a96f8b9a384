/* Adam, RMSProp and the gradient norm on every device, against scalar computations in double
 * written out here. */
#include "tests/unit/learner/device/device_testing.h"

enum { STEPS = 7 };

/* Device arrays: parameters, two states, gradient, norm. */
struct arrays {
  real *p, *first, *second, *g, *norm;
  struct device_schedule *schedule;
};

static struct arrays upload_start(struct testing *t, const float *start, size_t P) {
  struct arrays a = {testing_upload(t, start, P), testing_zeros(t, P),
                     testing_zeros(t, P),         testing_room(t, P),
                     testing_room(t, 1),          testing_bytes_room(t, sizeof *a.schedule)};
  return a;
}

static void set_schedule(struct testing *t, struct arrays *a, int64_t step, float learning_rate) {
  struct device_schedule schedule = {.step = step, .learning_rate = learning_rate};
  t->device->ops->upload_bytes(t->device, a->schedule, &schedule, sizeof schedule);
  device_finish(t->device);
}

static double norm_of(const float *g, size_t P) {
  double sum = 0;
  for (size_t i = 0; i < P; i++) sum += (double)g[i] * (double)g[i];
  return sqrt(sum);
}

static double scale_of(double norm, float max_norm) {
  return max_norm > 0 ? fmin(1, (double)max_norm / norm) : 1;
}

static void expect(const struct testing *t, const char *what, const double *expected, const real *x,
                   size_t P, double tolerance) {
  float *got = check_alloc(P, sizeof *got);
  t->device->ops->download(t->device, got, x, P);
  for (size_t i = 0; i < P; i++)
    if (!(fabs((double)got[i] - expected[i]) <= tolerance * (1e-3 + fabs(expected[i]))))
      fail_msg("%s, %s: element %zu of %zu is %.9g, expected %.9g", t->device->description, what, i,
               P, (double)got[i], expected[i]);
  free(got);
}

/* One gradient for this step on the device; its norm, checked, is returned. */
static double next_gradient(struct testing *t, struct arrays *a, float *g, uint64_t *random,
                            size_t P) {
  for (size_t i = 0; i < P; i++) g[i] = 2 * testing_uniform(random) - 1;
  t->device->ops->upload(t->device, a->g, g, P);
  t->device->ops->global_norm(t->device, a->norm, a->g, P);
  double norm = norm_of(g, P);
  expect(t, "norm", &norm, a->norm, 1, 1e-6);
  return norm;
}

static void adam_run(struct testing *t, size_t P, float max_norm, bool hat) {
  const double lr = (double)0.01f, b1 = (double)0.9f, b2 = (double)0.999f, epsilon = (double)1e-5f;
  uint64_t random = P + 1;
  float *start = testing_floats(&random, P, 1), *g = check_alloc(P, sizeof *g);
  double *p = check_alloc(P, sizeof *p), *m = check_alloc(P, sizeof *m),
         *v = check_alloc(P, sizeof *v);
  for (size_t i = 0; i < P; i++) p[i] = (double)start[i];
  struct arrays a = upload_start(t, start, P);
  for (int step = 1; step <= STEPS; step++) {
    double scale = scale_of(next_gradient(t, &a, g, &random, P), max_norm);
    set_schedule(t, &a, step, 0.01f);
    t->device->ops->adam(t->device, a.p, a.first, a.second, a.g, a.norm, a.schedule, max_norm, 0.9f,
                         0.999f, 1e-5f, hat, P);
    for (size_t i = 0; i < P; i++) {
      double gradient = (double)g[i] * scale;
      m[i] = b1 * m[i] + (1 - b1) * gradient;
      v[i] = b2 * v[i] + (1 - b2) * gradient * gradient;
      double m_hat = m[i] / (1 - pow(b1, step)), v_hat = v[i] / (1 - pow(b2, step));
      p[i] -=
          hat ? lr * sqrt(1 - pow(b2, step)) / (1 - pow(b1, step)) * m[i] / (sqrt(v[i]) + epsilon)
              : lr * m_hat / (sqrt(v_hat) + epsilon);
    }
  }
  expect(t, "adam p", p, a.p, P, 1e-5);
  expect(t, "adam m", m, a.first, P, 1e-5);
  expect(t, "adam v", v, a.second, P, 4e-5);
  testing_release(t);
  void *all[] = {start, g, p, m, v};
  for (int i = 0; i < 5; i++) free(all[i]);
}

static void rmsprop_run(struct testing *t, size_t P, float max_norm) {
  const double lr = (double)0.01f, decay = (double)0.99f, momentum = (double)0.5f,
               epsilon = (double)0.1f;
  uint64_t random = P + 2;
  float *start = testing_floats(&random, P, 1), *g = check_alloc(P, sizeof *g);
  double *p = check_alloc(P, sizeof *p), *ms = check_alloc(P, sizeof *ms),
         *mom = check_alloc(P, sizeof *mom);
  for (size_t i = 0; i < P; i++) p[i] = (double)start[i];
  struct arrays a = upload_start(t, start, P);
  for (int step = 1; step <= STEPS; step++) {
    double scale = scale_of(next_gradient(t, &a, g, &random, P), max_norm);
    set_schedule(t, &a, step, 0.01f);
    t->device->ops->rmsprop(t->device, a.p, a.first, a.second, a.g, a.norm, a.schedule, max_norm,
                            0.99f, 0.5f, 0.1f, P);
    for (size_t i = 0; i < P; i++) {
      double gradient = (double)g[i] * scale;
      ms[i] = decay * ms[i] + (1 - decay) * gradient * gradient;
      mom[i] = momentum * mom[i] + lr * gradient / sqrt(ms[i] + epsilon);
      p[i] -= mom[i];
    }
  }
  expect(t, "rmsprop p", p, a.p, P, 1e-5);
  expect(t, "rmsprop ms", ms, a.first, P, 1e-5);
  expect(t, "rmsprop mom", mom, a.second, P, 1e-5);
  testing_release(t);
  void *all[] = {start, g, p, ms, mom};
  for (int i = 0; i < 5; i++) free(all[i]);
}

/* Without clipping, with a limit that clips, and with one that does not. */
static void optimisers(struct testing *cpu, struct testing *ref) {
  static const size_t counts[] = {1, 3, 16, 17, 257, 4611, 10000};
  static const float limits[] = {0, 0.5f, 1000};
  struct testing *both[] = {cpu, ref};
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
      for (int j = 0; j < 3; j++) {
        adam_run(both[k], counts[i], limits[j], (i + j) % 2);
        rmsprop_run(both[k], counts[i], limits[j]);
      }
}

/* Epsilon is added to the root of the bias-corrected square. With a constant gradient g that square
 * is g^2 at every step: so with |g| = epsilon each step is half the learning rate. Were epsilon
 * added before the correction, the first step would be 0.09 of it. */
static void epsilon_is_added_after_the_correction(struct testing *cpu, struct testing *ref) {
  enum { P = 2 };
  struct testing *both[] = {cpu, ref};
  const float start[P] = {1, 1}, g[P] = {0.25f, -0.25f};
  for (int k = 0; k < 2; k++) {
    struct testing *t = both[k];
    struct arrays a = upload_start(t, start, P);
    t->device->ops->upload(t->device, a.g, g, P);
    t->device->ops->global_norm(t->device, a.norm, a.g, P);
    for (int step = 1; step <= 3; step++) {
      set_schedule(t, &a, step, 0.125f);
      t->device->ops->adam(t->device, a.p, a.first, a.second, a.g, a.norm, a.schedule, 0, 0.9f,
                           0.99f, 0.25f, false, P);
      const double expected[P] = {1 - step * 0.0625, 1 + step * 0.0625};
      expect(t, "p", expected, a.p, P, 1e-5);
    }
    testing_release(t);
  }
}

/* A gradient of zeros has norm 0 and must not turn into NaN by clipping. */
static void no_gradient(struct testing *cpu, struct testing *ref) {
  struct testing *both[] = {cpu, ref};
  for (int k = 0; k < 2; k++) {
    struct testing *t = both[k];
    float start[5] = {1, 2, 3, 4, 5};
    double expected[5] = {1, 2, 3, 4, 5};
    struct arrays a = upload_start(t, start, 5);
    t->device->ops->global_norm(t->device, a.norm, a.g, 5);
    set_schedule(t, &a, 1, 0.1f);
    t->device->ops->adam(t->device, a.p, a.first, a.second, a.g, a.norm, a.schedule, 1, 0.9f, 0.99f,
                         1e-8f, false, 5);
    expect(t, "p", expected, a.p, 5, 0);
    testing_release(t);
  }
}

/* Where the norm of a gradient is not finite, nothing changes, would it be clipped or not. */
static void check_not_finite(struct testing *t) {
  static const float start[5] = {1, 2, 3, 4, 5}, bad[] = {NAN, INFINITY, -INFINITY, 3e38f};
  static const double expected[5] = {1, 2, 3, 4, 5}, nothing[5];
  for (size_t i = 0; i < 8; i++) {
    float g[5] = {1, -1, 0, bad[i % 4], bad[i % 4]}, max_norm = i < 4 ? 0 : 1;
    if (i % 4 == 3 && t->device->ops->real_bytes > sizeof(float)) continue; /* it is finite there */
    struct arrays a = upload_start(t, start, 5);
    t->device->ops->upload(t->device, a.g, g, 5);
    t->device->ops->global_norm(t->device, a.norm, a.g, 5);
    set_schedule(t, &a, 1, 0.1f);
    t->device->ops->adam(t->device, a.p, a.first, a.second, a.g, a.norm, a.schedule, max_norm, 0.9f,
                         0.99f, 1e-8f, false, 5);
    t->device->ops->rmsprop(t->device, a.p, a.first, a.second, a.g, a.norm, a.schedule, max_norm,
                            0.9f, 0.9f, 1e-8f, 5);
    expect(t, "p", expected, a.p, 5, 0);
    expect(t, "first", nothing, a.first, 5, 0);
    expect(t, "second", nothing, a.second, 5, 0);
    testing_release(t);
  }
}

/* A loss that is not finite makes the norm NaN; one that is leaves it as it is. */
static void check_require_finite(struct testing *t) {
  static const float losses[][3] = {
      {1, -2, 0}, {INFINITY, 0, 0}, {0, -INFINITY, 0}, {0, 0, NAN}, {1e38f, 0, -1e38f}};
  for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
    const float before = 0.75f;
    float after;
    real *norm = testing_upload(t, &before, 1), *x = testing_upload(t, losses[i], 3);
    t->device->ops->require_finite(t->device, norm, x, 3, NULL);
    t->device->ops->download(t->device, &after, norm, 1);
    if (i == 0 || i == 4)
      assert_true(after == before);
    else
      assert_true(isnan(after));
    testing_release(t);
  }
}

/* A norm that is not finite is remembered, whether by itself or by a loss; and what is remembered
 * makes the next ones NaN. */
static void check_failure_is_remembered(struct testing *t) {
  static const struct {
    float norm, loss, failed;
    bool fails;
  } table[] = {{1, 2, 0, false},
               {INFINITY, 2, 0, true},
               {NAN, 2, 0, true},
               {1, INFINITY, 0, true},
               {1, 2, NAN, true}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    float norm_after, failed_after;
    real *norm = testing_upload(t, &table[i].norm, 1), *x = testing_upload(t, &table[i].loss, 1),
         *failed = testing_upload(t, &table[i].failed, 1);
    t->device->ops->require_finite(t->device, norm, x, 1, failed);
    t->device->ops->download(t->device, &norm_after, norm, 1);
    t->device->ops->download(t->device, &failed_after, failed, 1);
    assert_true(isfinite(norm_after) == !table[i].fails);
    assert_true(isfinite(failed_after) == !table[i].fails);
    testing_release(t);
  }
}

/* The same numbers in the same order: twice the same bits. */
static void deterministic(struct testing *cpu, struct testing *ref) {
  (void)ref;
  uint64_t random = 17;
  float *g = testing_floats(&random, 9999, 1), norm[2];
  real *g_d = testing_upload(cpu, g, 9999), *norm_d = testing_room(cpu, 1);
  for (int k = 0; k < 2; k++) {
    cpu->device->ops->global_norm(cpu->device, norm_d, g_d, 9999);
    cpu->device->ops->download(cpu->device, &norm[k], norm_d, 1);
  }
  assert_memory_equal(&norm[0], &norm[1], sizeof(float));
  free(g);
  testing_release(cpu);
}

static void test_optimisers(void **state) {
  (void)state;
  testing_each_set(optimisers);
}
static void test_no_gradient(void **state) {
  (void)state;
  testing_each_set(no_gradient);
}
static void test_epsilon(void **state) {
  (void)state;
  testing_each_set(epsilon_is_added_after_the_correction);
}
static void test_not_finite(void **state) {
  (void)state;
  testing_each_device(check_not_finite);
}
static void test_require_finite(void **state) {
  (void)state;
  testing_each_device(check_require_finite);
  testing_each_device(check_failure_is_remembered);
}
static void test_deterministic(void **state) {
  (void)state;
  testing_each_set(deterministic);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_optimisers),     cmocka_unit_test(test_no_gradient),
      cmocka_unit_test(test_epsilon),        cmocka_unit_test(test_not_finite),
      cmocka_unit_test(test_require_finite), cmocka_unit_test(test_deterministic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
