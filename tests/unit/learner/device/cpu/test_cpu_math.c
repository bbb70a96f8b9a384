/* The vector approximations, densely: against libm in double. The header is compiled here for
 * the smallest set; the others are reached through the operations that use them. */
#include "learner/device/cpu/cpu_math.h"
#include "tests/unit/learner/device/device_testing.h"

/* W numbers through one function. */
#define APPLY(name)                                    \
  static void apply_##name(float *y, const float *x) { \
    store(y, name(load(x)));                           \
  }
APPLY(vexp)
APPLY(vlog)
APPLY(vtanh)

/* Largest error over [low, high] in `steps` steps, relative where asked, else absolute. */
static double largest_error(void (*apply)(float *, const float *), double (*exact)(double),
                            double low, double high, int steps, bool relative) {
  double worst = 0;
  float x[W], y[W];
  for (int i = 0; i < steps; i += W) {
    for (int k = 0; k < W; k++) x[k] = (float)(low + (high - low) * (i + k) / steps);
    apply(y, x);
    for (int k = 0; k < W; k++) {
      double right = exact((double)x[k]), error = fabs((double)y[k] - right);
      worst = fmax(worst, relative ? error / fmax(fabs(right), 1e-300) : error);
    }
  }
  return worst;
}

static void test_exp(void **state) {
  (void)state;
  assert_true(largest_error(apply_vexp, exp, -86.9, 88, 4000000, true) < 2e-7);
  float x[W] = {-88, -INFINITY, 1000, NAN}, y[W];
  apply_vexp(y, x);
  assert_true(y[0] == 0 && y[1] == 0 && y[2] > 1e38f && isnan(y[3]));
}

static void test_log(void **state) {
  (void)state;
  assert_true(largest_error(apply_vlog, log, 0x1p-20, 0.7, 1000000, true) < 3e-7);
  assert_true(largest_error(apply_vlog, log, 0.7, 1.5, 1000000, true) < 3e-7);
  assert_true(largest_error(apply_vlog, log, 1.5, 5000, 1000000, true) < 3e-7);
  assert_true(largest_error(apply_vlog, log, 0x1p-126, 0x1p-100, 1000000, true) < 3e-7);
  assert_true(largest_error(apply_vlog, log, 1e30, 3e38, 1000000, true) < 3e-7);
}

static void test_tanh(void **state) {
  (void)state;
  assert_true(largest_error(apply_vtanh, tanh, -12, 12, 4000000, false) < 4e-7);
  assert_true(largest_error(apply_vtanh, tanh, 1e-20, 0.1, 1000000, true) < 4e-7);
  float x[W] = {-INFINITY, INFINITY, NAN, 0}, y[W];
  apply_vtanh(y, x);
  assert_true(fabsf(y[0] + 1) < 4e-7f && fabsf(y[1] - 1) < 4e-7f && isnan(y[2]) && y[3] == 0);
}

/* tanh of every kernel set, by a layer of 64 outputs that is all bias. */
static void layer_tanh(struct testing *cpu, struct testing *ref) {
  (void)ref;
  enum { O = 67, BLOCKS = 6000 };
  float host[O], y[O], zero = 0;
  real *w = testing_zeros(cpu, O), *b = testing_room(cpu, O), *out = testing_room(cpu, O);
  real *x = testing_upload(cpu, &zero, 1);
  for (int i = 0; i < BLOCKS; i++) {
    for (int k = 0; k < O; k++) host[k] = -10 + 20 * (float)(i * O + k) / (float)(BLOCKS * O);
    cpu->device->ops->upload(cpu->device, b, host, O);
    cpu->device->ops->linear_forward(cpu->device, out, x, 1, w, b, ACTIVATION_TANH, 1, 1, O);
    cpu->device->ops->download(cpu->device, y, out, O);
    for (int k = 0; k < O; k++) assert_true(fabs((double)y[k] - tanh((double)host[k])) < 4e-7);
  }
  testing_release(cpu);
}

/* The logistic function and tanh of every kernel set, by LSTM gates. */
static void lstm_gates(struct testing *cpu, struct testing *ref) {
  (void)ref;
  enum { H = 19, BLOCKS = 4000 };
  float gates[4 * H], out[4 * H];
  const uint8_t first = 1;
  const uint8_t *reset = testing_bytes(cpu, &first, 1);
  real *gates_d = testing_room(cpu, 4 * H), *h = testing_room(cpu, H), *c = testing_room(cpu, H);
  real *wh = testing_zeros(cpu, 4 * H * H), *start = testing_zeros(cpu, H);
  for (int i = 0; i < BLOCKS; i++) {
    for (int k = 0; k < 4 * H; k++)
      gates[k] = -20 + 40 * (float)(i * 4 * H + k) / (float)(BLOCKS * 4 * H);
    cpu->device->ops->upload(cpu->device, gates_d, gates, 4 * H);
    cpu->device->ops->lstm_forward(cpu->device, h, c, gates_d, wh, start, start, reset, 1, 1, H);
    cpu->device->ops->download(cpu->device, out, gates_d, 4 * H);
    for (int k = 0; k < 4 * H; k++) {
      double x = (double)(k / H == 1 ? gates[k] + 1.0f : gates[k]);
      double right = k / H == 2 ? tanh(x) : 1 / (1 + exp(-x));
      assert_true(fabs((double)out[k] - right) < (k / H == 2 ? 4e-7 : 3e-7));
    }
  }
  testing_release(cpu);
}

static void test_layer_tanh(void **state) {
  (void)state;
  testing_each_set(layer_tanh);
}
static void test_lstm_gates(void **state) {
  (void)state;
  testing_each_set(lstm_gates);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exp),        cmocka_unit_test(test_log),
      cmocka_unit_test(test_tanh),       cmocka_unit_test(test_layer_tanh),
      cmocka_unit_test(test_lstm_gates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
