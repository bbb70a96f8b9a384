/* Devices by name, the choice of the kernel set, memory, arithmetic on device arrays. */
#include <math.h>

#include "tests/unit/learner/device/device_testing.h"
#include "tests/unit/support/any_device.h"

static void test_devices_by_name(void **state) {
  (void)state;
  static const struct {
    const char *name;
    const char *precision;
    size_t real_bytes, pixel_bytes;
  } table[] = {{"cpu", "float32", 4, 4},  {"ref", "float32", 4, 4}, {"ref_double", "float32", 8, 8},
               {"cuda", "float32", 4, 4}, {"cuda", "tf32", 4, 4},   {"cuda", "bf16", 4, 2}};
  emulated_cuda_use();
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct device *d;
    struct error error;
    assert_int_equal(
        device_create_by(
            &d, &(struct device_options){.name = table[i].name, .precision = table[i].precision},
            &error),
        STATUS_OK);
    assert_string_equal(d->ops->name, table[i].name);
    assert_int_equal(d->ops->real_bytes, table[i].real_bytes);
    assert_int_equal(d->ops->pixel_bytes, table[i].pixel_bytes);
    assert_ptr_equal(strstr(d->description, table[i].name), d->description);
    device_destroy(d);
  }
  device_destroy(NULL);
}

static void test_unknown_precision(void **state) {
  (void)state;
  static const struct {
    const char *name, *precision, *says;
  } table[] = {{"cpu", "tf32", "--precision=tf32: device cpu computes in float32 or bf16: give"},
               {"ref", "bf16", "device ref computes in float32: give --precision=float32"},
               {"ref_double", "bf16", "device ref_double computes in float64: give"}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct device *d;
    struct error error;
    struct device_options options = {.name = table[i].name, .precision = table[i].precision};
    assert_int_equal(device_create_by(&d, &options, &error), STATUS_INVALID);
    assert_null(d);
    assert_non_null(strstr(error.text, table[i].says));
  }
}

static void test_unknown_name(void **state) {
  (void)state;
  struct device *d;
  struct error error;
  assert_int_equal(device_create(&d, "gpu", &error), STATUS_INVALID);
  assert_null(d);
  assert_non_null(strstr(error.text, "'gpu'"));
  assert_non_null(strstr(error.text, "auto, cpu, cuda, ref or ref_double"));
}

static void test_kernel_set_by_environment(void **state) {
  (void)state;
  struct device *d;
  struct error error;
  setenv("ACORN_CPU", "v2", 1);
  assert_int_equal(device_create(&d, "cpu", &error), STATUS_OK);
  assert_string_equal(d->description, "cpu (sse4)");
  device_destroy(d);
  setenv("ACORN_CPU", "v9", 1);
  assert_int_equal(device_create(&d, "cpu", &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "ACORN_CPU=v9"));
  setenv("ACORN_CPU", "v4", 1);
  bool has_avx512 = __builtin_cpu_supports("x86-64-v4");
  struct device_options low = {.name = "cpu", .precision = "bf16"};
  enum status status = device_create_by(&d, &low, &error);
  assert_int_equal(status, has_avx512 ? STATUS_OK : STATUS_INVALID);
  if (has_avx512) assert_string_equal(d->description, "cpu (avx512, bf16)");
  device_destroy(d);
  unsetenv("ACORN_CPU");
}

static void test_memory(void **state) {
  (void)state;
  static const char *const names[] = {"cpu", "ref", "ref_double", "guarded", "cuda"};
  static const float host[5] = {1, -2, 3.5f, 0, 5};
  emulated_cuda_use();
  for (int i = 0; i < 5; i++) {
    struct device *d;
    struct error error;
    float back[5];
    assert_int_equal(any_device_create(&d, names[i], &error), STATUS_OK);
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
  in.discrete = 3;
  assert_int_equal(device_inputs_size(&in), 16);
  in.use_previous_action = true;
  assert_int_equal(device_inputs_size(&in), 19);
  in.use_reward = true;
  assert_int_equal(device_inputs_size(&in), 20);
}

/* A box's previous action as input: as it was chosen; nothing on a first row, whatever stands
 * there. */
static void test_a_box_is_read_as_it_was_chosen(void **state) {
  (void)state;
  static const float action[3][6] = {
      {-2, 1, -9, 1e30f, 3, 7}, {1, 6, 0.25f, -8, -1, 0}, {1, 2, 3, 4, 5, 6}};
  static const float expected[3][6] = {{-2, 1, -9, 1e30f, 3, 7}, {1, 6, 0.25f, -8, -1, 0}};
  static const uint8_t flags[3] = {0, STEP_TRUNCATED, STEP_FIRST | STEP_TERMINATED};
  static const char *const names[] = {"ref", "ref_double", "cpu"};
  struct device_inputs in = {
      .previous_action = action, .flags = flags, .box = 6, .use_previous_action = true};
  assert_int_equal(device_inputs_size(&in), 6);
  for (int i = 0; i < 3; i++) {
    struct device *d;
    struct error error;
    float got[3][6];
    assert_int_equal(device_create(&d, names[i], &error), STATUS_OK);
    real *y = d->ops->alloc(d, 18 * d->ops->real_bytes);
    d->ops->embed(d, y, &in, 3);
    d->ops->download(d, got[0], y, 18);
    assert_memory_equal(got, expected, sizeof(got));
    d->ops->release(d, y);
    device_destroy(d);
  }
}

/* 0 on a first row, whatever stands there. */
static void test_the_reward_input_is_clipped_or_raw(void **state) {
  (void)state;
  static const float reward[5] = {-3, -0.5f, 1e9f, 0.25f, 7};
  static const float expected[2][5] = {{-1, -0.5f, 1, 0.25f, 0}, {-3, -0.5f, 1e9f, 0.25f, 0}};
  static const uint8_t flags[5] = {0, STEP_TRUNCATED, 0, 0, STEP_FIRST | STEP_TERMINATED};
  static const char *const names[] = {"ref", "ref_double", "cpu"};
  struct device_inputs in = {.reward = reward, .flags = flags, .use_reward = true};
  for (int i = 0; i < 3; i++) {
    struct device *d;
    struct error error;
    float got[5];
    assert_int_equal(device_create(&d, names[i], &error), STATUS_OK);
    real *y = d->ops->alloc(d, 5 * d->ops->real_bytes);
    for (int raw = 0; raw < 2; raw++) {
      in.raw_reward = raw;
      assert_int_equal(device_inputs_size(&in), 1);
      d->ops->embed(d, y, &in, 5);
      d->ops->download(d, got, y, 5);
      assert_memory_equal(got, expected[raw], sizeof(got));
    }
    d->ops->release(d, y);
    device_destroy(d);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_devices_by_name),
      cmocka_unit_test(test_unknown_precision),
      cmocka_unit_test(test_unknown_name),
      cmocka_unit_test(test_kernel_set_by_environment),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_inputs_size),
      cmocka_unit_test(test_a_box_is_read_as_it_was_chosen),
      cmocka_unit_test(test_the_reward_input_is_clipped_or_raw),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
