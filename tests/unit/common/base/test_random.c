// Known answers: the Random123 distribution's kat_vectors for philox4x32 with 10 rounds.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "common/base/random.h"

static void test_known_answers(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4];
    uint64_t key;
    uint32_t expected[4];
  } rows[] = {
      {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
       UINT64_MAX,
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       0x299f31d0a4093822,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    uint32_t out[4];
    random_philox4x32(out, rows[i].counter, rows[i].key);
    assert_memory_equal(out, rows[i].expected, sizeof out);
  }
}

static void test_the_output_may_be_the_counter(void **state) {
  (void)state;
  uint32_t block[4] = {0};
  random_philox4x32(block, block, 0);
  assert_int_equal(block[0], 0x6627e8d5);
  assert_int_equal(block[3], 0x9b00dbd8);
}

// Every argument has its own word of the counter, in the order that the header names.
static void test_bits_use_the_documented_counter(void **state) {
  (void)state;
  const uint32_t counter[4] = {4, 3, 2, RANDOM_TEST};
  uint32_t out[4];
  random_philox4x32(out, counter, 1);
  assert_true(random_bits(1, 2, 3, 4, RANDOM_TEST) == ((uint64_t)out[1] << 32 | out[0]));
}

static void test_uniform_is_on_its_grid(void **state) {
  (void)state;
  enum { COUNT = 100000 };
  double sum = 0, sum_of_squares = 0;
  for (uint32_t i = 0; i < COUNT; i++) {
    float u = random_uniform(7, i % 16, i / 16 % 3, i, RANDOM_TEST);
    assert_true(u >= 0 && u < 1);
    assert_true(u * 0x1p24f == floorf(u * 0x1p24f));
    sum += u;
    sum_of_squares += (double)u * u;
  }
  // Five standard errors of the mean (1/2, sd 0.289) and of the second moment (1/3, sd 0.298).
  assert_true(fabs(sum / COUNT - 1.0 / 2) < 5 * 0.289 / sqrt(COUNT));
  assert_true(fabs(sum_of_squares / COUNT - 1.0 / 3) < 5 * 0.298 / sqrt(COUNT));
}

static void test_normal_has_its_moments(void **state) {
  (void)state;
  enum { COUNT = 100000 };
  double moment[5] = {0};
  for (uint32_t i = 0; i < COUNT; i++) {
    double x = random_normal(7, 3, i, RANDOM_PARAMETERS);
    assert_true(isfinite(x));
    for (int power = 1; power <= 4; power++) moment[power] += pow(x, power) / COUNT;
  }
  // Standard deviations of x, x^2, x^3 and x^4 are 1, sqrt 2, sqrt 15 and sqrt 96.
  static const double expected[] = {0, 0, 1, 0, 3}, deviation[] = {0, 1, 1.42, 3.88, 9.80};
  for (int power = 1; power <= 4; power++) {
    assert_true(fabs(moment[power] - expected[power]) < 5 * deviation[power] / sqrt(COUNT));
  }
}

// From a program of its own (Python, exact integers), so that recorded runs stay what they are.
static void test_a_normal_number_is_pinned(void **state) {
  (void)state;
  assert_true(fabs(random_normal(7, 3, 5, RANDOM_PARAMETERS) - (1.904696365869931)) < 1e-14);
}

static void test_streams_differ(void **state) {
  (void)state;
  assert_true(random_normal(7, 1, 0, RANDOM_PARAMETERS) !=
              random_normal(7, 2, 0, RANDOM_PARAMETERS));
  assert_true(random_normal(7, 1, 0, RANDOM_PARAMETERS) !=
              random_normal(8, 1, 0, RANDOM_PARAMETERS));
  assert_true(random_bits(7, 1, 0, 0, RANDOM_ACTION) != random_bits(7, 1, 0, 0, RANDOM_ENV_SEED));
}

/* Alone a learner's environments are its slots; no two learners have one in common. */
static void test_ranks_have_environments_of_their_own(void **state) {
  (void)state;
  assert_int_equal(random_environment(0, 65535), 65535);
  assert_true(random_environment(1, 0) > random_environment(0, (1u << RANDOM_SLOT_BITS) - 1));
  assert_true(random_environment(2, 3) != random_environment(3, 2));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known_answers),
      cmocka_unit_test(test_the_output_may_be_the_counter),
      cmocka_unit_test(test_bits_use_the_documented_counter),
      cmocka_unit_test(test_uniform_is_on_its_grid),
      cmocka_unit_test(test_normal_has_its_moments),
      cmocka_unit_test(test_a_normal_number_is_pinned),
      cmocka_unit_test(test_streams_differ),
      cmocka_unit_test(test_ranks_have_environments_of_their_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
