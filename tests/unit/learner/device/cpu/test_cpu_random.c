/* random_uniforms of every kernel set and of the reference device: bit for bit random_uniform. */
#include "tests/unit/learner/device/device_testing.h"

#include "common/base/random.h"

static const struct {
  uint64_t seed;
  uint32_t first_environment, life, first_step;
  enum random_purpose purpose;
} table[] = {
    {0, 0, 0, 0, RANDOM_ACTION},
    {1, 64, 3, 1000, RANDOM_ACTION},
    {0xfedcba9876543210, 7, UINT32_MAX, UINT32_MAX - 20, RANDOM_TEST},
    {UINT64_MAX, UINT32_MAX - 9, 0x80000000, 0x7ffffff0, RANDOM_ENV_SEED}, /* ids wrap */
};

enum { GUARD = 1 };

static void expect_uniforms(struct testing *t, size_t row, int B) {
  uint64_t random = row + 1;
  size_t n = (size_t)B;
  uint32_t *id = check_alloc(3 * n, sizeof *id), *life = id + n, *step = life + n;
  uint8_t *greedy = check_alloc(n, 1);
  for (int b = 0; b < B; b++) {
    id[b] = table[row].first_environment + (uint32_t)b;
    life[b] = table[row].life + (uint32_t)testing_below(&random, 3);
    step[b] = table[row].first_step + (uint32_t)testing_below(&random, 1 << 20);
    greedy[b] = testing_below(&random, 5) == 0;
  }
  const float guard = 5;
  float *uniform_d = testing_bytes_room(t, (n + GUARD) * sizeof(float));
  t->device->ops->upload_bytes(t->device, uniform_d + B, &guard, sizeof guard);
  struct device_draws draws = {
      1, testing_bytes(t, id, n * sizeof *id), testing_bytes(t, life, n * sizeof *life),
      testing_bytes(t, step, n * sizeof *step), testing_bytes(t, greedy, n)};
  t->device->ops->random_uniforms(t->device, uniform_d, table[row].seed, &draws, table[row].purpose,
                                  B);
  float *uniform = testing_bytes_back(t, uniform_d, (n + GUARD) * sizeof *uniform);
  for (int b = 0; b < B; b++) {
    float expected =
        greedy[b] ? -1
                  : random_uniform(table[row].seed, id[b], life[b], step[b], table[row].purpose);
    assert_memory_equal(&uniform[b], &expected, sizeof expected);
  }
  assert_true(uniform[B] == 5);
  free(id);
  free(greedy);
  free(uniform);
  testing_release(t);
}

static void uniforms(struct testing *cpu, struct testing *ref) {
  for (size_t row = 0; row < sizeof table / sizeof *table; row++)
    for (size_t i = 0; i < sizeof TESTING_SIZES / sizeof *TESTING_SIZES; i++) {
      expect_uniforms(cpu, row, TESTING_SIZES[i]);
      expect_uniforms(ref, row, TESTING_SIZES[i]);
    }
}

static void test_uniforms(void **state) {
  (void)state;
  testing_each_set(uniforms);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_uniforms)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
