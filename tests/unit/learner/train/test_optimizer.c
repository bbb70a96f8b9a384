/* Optimisers alone, against their formulas in double; the scalar Adam against the device's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/random.h"
#include "learner/device/create.h"
#include "learner/train/optimizer.h"

enum { P = 5, STEPS = 20 };

static const struct optimizer_options rates = {.adam_beta1 = 0.8,
                                               .adam_beta2 = 0.95,
                                               .adam_epsilon = 1e-3,
                                               .rmsprop_decay = 0.9,
                                               .rmsprop_momentum = 0.5,
                                               .rmsprop_epsilon = 0.02};

/* One parameter's value and its optimiser's two numbers. */
struct reference {
  double p, first, second;
};

static void adam_reference(struct reference *r, double g, double rate, int step) {
  r->first = 0.8 * r->first + 0.2 * g;
  r->second = 0.95 * r->second + 0.05 * g * g;
  r->p -= rate * r->first / (1 - pow(0.8, step)) / (sqrt(r->second / (1 - pow(0.95, step))) + 1e-3);
}

static void rmsprop_reference(struct reference *r, double g, double rate, int step) {
  (void)step;
  r->first = 0.9 * r->first + 0.1 * g * g;
  r->second = 0.5 * r->second + rate * g / sqrt(r->first + 0.02);
  r->p -= r->second;
}

static double gradient_of(int step, int i) {
  return random_uniform(1, 0, (uint32_t)i, (uint32_t)step, RANDOM_TEST) * 4 - 1.5;
}

static void upload(struct device *device, real *y, const double *x) {
  float host[P];
  for (int i = 0; i < P; i++) host[i] = (float)x[i];
  device->ops->upload(device, y, host, P);
}

/* Gradient and norm of one step to the device; returns the factor by which max_gradient_norm
 * shrinks it. */
static double give_gradient(struct device *device, real *gradient, real *norm, double g[P],
                            int step, double max_gradient_norm) {
  double squares = 0;
  for (int i = 0; i < P; i++) g[i] = (float)gradient_of(step, i), squares += g[i] * g[i];
  upload(device, gradient, g);
  device->ops->global_norm(device, norm, gradient, P);
  return max_gradient_norm > 0 && sqrt(squares) > max_gradient_norm
             ? max_gradient_norm / sqrt(squares)
             : 1;
}

static void steps_follow_their_formulas(void **state) {
  (void)state;
  static const struct {
    char *name;
    double max_gradient_norm;
    void (*reference)(struct reference *r, double g, double rate, int step);
    double first;
  } table[] = {{"adam", 0, adam_reference, 0},
               {"adam", 2, adam_reference, 0},
               {"rmsprop", 0, rmsprop_reference, 1},
               {"rmsprop", 2, rmsprop_reference, 1}};
  for (size_t row = 0; row < sizeof(table) / sizeof(table[0]); row++) {
    struct device *device = device_ref_double_create();
    struct optimizer_options config = rates;
    struct optimizer *optimizer;
    config.name = table[row].name;
    config.max_gradient_norm = table[row].max_gradient_norm;
    assert_int_equal(optimizer_create(&optimizer, device, P, &config, NULL), STATUS_OK);
    struct reference r[P] = {{0.5, 0, 0}, {-1, 0, 0}, {0, 0, 0}, {2, 0, 0}, {3, 0, 0}};
    for (int i = 0; i < P; i++) r[i].first = table[row].first;
    double start[P] = {0.5, -1, 0, 2, 3}, g[P], params[P], gradient[P], norm;
    upload(device, (real *)params, start);
    int clipped = 0;
    for (int step = 1; step <= STEPS; step++) {
      double scale =
          give_gradient(device, (real *)gradient, (real *)&norm, g, step, config.max_gradient_norm);
      clipped += scale < 1;
      for (int i = 0; i < P; i++) table[row].reference(&r[i], g[i] * scale, 0.03, step);
      struct device_schedule schedule = {.step = step, .learning_rate = 0.03f};
      optimizer_apply(optimizer, (real *)params, (real *)gradient, (real *)&norm, &schedule);
    }
    assert_true(config.max_gradient_norm > 0 ? clipped > 0 && clipped < STEPS : clipped == 0);
    const double *first = (const double *)optimizer_slot(optimizer, 0);
    const double *second = (const double *)optimizer_slot(optimizer, 1);
    for (int i = 0; i < P; i++) {
      assert_true(fabs(params[i] - r[i].p) < 1e-6);
      assert_true(fabs(first[i] - r[i].first) < 1e-6 && fabs(second[i] - r[i].second) < 1e-6);
    }
    optimizer_destroy(optimizer);
    device_destroy(device);
  }
}

static void names_its_state(void **state) {
  (void)state;
  static char *const names[2][3] = {{"adam", "adam/m", "adam/v"},
                                    {"rmsprop", "rmsprop/ms", "rmsprop/mom"}};
  for (int k = 0; k < 2; k++) {
    struct device *device = device_ref_float_create();
    struct optimizer_options config = rates;
    struct optimizer *optimizer;
    config.name = names[k][0];
    assert_int_equal(optimizer_create(&optimizer, device, P, &config, NULL), STATUS_OK);
    assert_string_equal(optimizer_slot_name(optimizer, 0), names[k][1]);
    assert_string_equal(optimizer_slot_name(optimizer, 1), names[k][2]);
    optimizer_destroy(optimizer);
    device_destroy(device);
  }
}

static void scalar_adam_is_adam(void **state) {
  (void)state;
  struct scalar_adam adam = {.value = 1};
  double p = 1, m = 0, v = 0;
  for (int step = 1; step <= STEPS; step++) {
    double g = gradient_of(step, 0);
    scalar_adam_apply(&adam, g, 0.1);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    p -= 0.1 * m / (1 - pow(0.9, step)) / (sqrt(v / (1 - pow(0.999, step))) + 1e-8);
  }
  assert_true(fabs(adam.value - p) < 1e-12 && adam.steps == STEPS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_follow_their_formulas),
      cmocka_unit_test(names_its_state),
      cmocka_unit_test(scalar_adam_is_adam),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
