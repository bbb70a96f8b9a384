/* Devices by name, the choice of the kernel set, memory, arithmetic on device arrays. */
#include "tests/unit/learner/device/device_testing.h"

static void test_devices_by_name(void **state) {
  (void)state;
  static const struct {
    const char *name;
    size_t real_bytes;
  } table[] = {{"cpu", 4}, {"ref", 4}, {"ref_double", 8}, {"guarded", 4}};
  for (int i = 0; i < 4; i++) {
    struct device *d;
    struct error error;
    assert_int_equal(device_create(&d, table[i].name, &error), STATUS_OK);
    assert_string_equal(d->ops->name, table[i].name);
    assert_int_equal(d->ops->real_bytes, table[i].real_bytes);
    assert_ptr_equal(strstr(device_describe(d), table[i].name), device_describe(d));
    device_destroy(d);
  }
  device_destroy(NULL);
}

static void test_unknown_name(void **state) {
  (void)state;
  struct device *d;
  struct error error;
  assert_int_equal(device_create(&d, "gpu", &error), STATUS_INVALID);
  assert_null(d);
  assert_non_null(strstr(error.text, "'gpu'"));
  assert_non_null(strstr(error.text, "cpu, ref, ref_double or guarded"));
}

static void test_kernel_set_by_environment(void **state) {
  (void)state;
  struct device *d;
  struct error error;
  setenv("ACORN_CPU", "v2", 1);
  assert_int_equal(device_create(&d, "cpu", &error), STATUS_OK);
  assert_string_equal(device_describe(d), "cpu (sse4)");
  device_destroy(d);
  setenv("ACORN_CPU", "v9", 1);
  assert_int_equal(device_create(&d, "cpu", &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "ACORN_CPU=v9"));
  setenv("ACORN_CPU", "v4", 1);
  enum status status = device_create(&d, "cpu", &error);
  assert_int_equal(status, __builtin_cpu_supports("x86-64-v4") ? STATUS_OK : STATUS_INVALID);
  device_destroy(d);
  unsetenv("ACORN_CPU");
}

static void test_memory(void **state) {
  (void)state;
  static const char *const names[] = {"cpu", "ref", "ref_double", "guarded"};
  static const float host[5] = {1, -2, 3.5f, 0, 5};
  for (int i = 0; i < 4; i++) {
    struct device *d;
    struct error error;
    float back[5];
    assert_int_equal(device_create(&d, names[i], &error), STATUS_OK);
    real *x = d->ops->alloc(d, 6 * d->ops->real_bytes);
    assert_int_equal((uintptr_t)x % 64, 0);
    d->ops->download(d, back, x, 5);
    for (int k = 0; k < 5; k++) assert_true(back[k] == 0);
    d->ops->upload(d, device_at(d, x, 1), host, 5);
    d->ops->download(d, back, device_at_const(d, x, 1), 5);
    assert_memory_equal(back, host, sizeof host);
    d->ops->download(d, back, x, 5);
    assert_true(back[0] == 0 && back[1] == 1);
    d->ops->release(d, x);
    device_destroy(d);
  }
}

static void test_inputs_size(void **state) {
  (void)state;
  struct device_inputs in = {.num_tensors = 2,
                             .tensor = {{DTYPE_UINT8, 12, 0}, {DTYPE_FLOAT32, 4, 16}}};
  in.num_actions = 3;
  assert_int_equal(device_inputs_size(&in), 16);
  in.use_previous_action = true;
  assert_int_equal(device_inputs_size(&in), 19);
  in.use_reward = true;
  assert_int_equal(device_inputs_size(&in), 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_devices_by_name),
      cmocka_unit_test(test_unknown_name),
      cmocka_unit_test(test_kernel_set_by_environment),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_inputs_size),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
