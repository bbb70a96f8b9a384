#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "actor/row_check.h"

static float numbers[19];
static uint8_t pixels[4] = {0xff, 0xff, 0xff, 0xff}; // as a float it would be NaN
static void *tensor[] = {pixels, numbers};
static const struct space space = {
    .num_tensors = 2,
    .tensor = {{"pixels", DTYPE_UINT8, 1, {4}}, {"numbers", DTYPE_FLOAT32, 1, {19}}},
    .discrete = 3};
static struct error error;

static struct acorn_row fine(void) {
  memset(numbers, 0, sizeof(numbers));
  return (struct acorn_row){.observation = tensor, .reward = -1.5f};
}

static void expect(enum status status, const char *words) {
  assert_int_equal(status, words ? STATUS_IO : STATUS_OK);
  if (words && !strstr(error.text, words)) fail_msg("'%s' is not in: %s", words, error.text);
}

static void steps(void **state) {
  (void)state;
  static const struct {
    float reward, number;
    int at, terminated, truncated;
    const char *words;
  } cases[] = {
      {1, 1e9f, 0, 0, 0, NULL},
      {-1e9f, -0.0f, 18, 1, 1, NULL},
      {1.1e9f, 0, 0, 0, 0, "its reward is 1.1e+09, of which only what is within"},
      {0, -2e9f, 18, 0, 0, "'numbers' has -2e+09 at place 18 of 19, of which only"},
      {NAN, 0, 0, 0, 0, "its reward is nan"},
      {-INFINITY, 0, 0, 0, 0, "its reward is -inf"},
      {0, NAN, 18, 0, 0, "'numbers' has nan at place 18 of 19"},
      {0, INFINITY, 0, 0, 0, "'numbers' has inf at place 0"},
      {0, 0, 0, 2, 0, "set terminated to 2"},
      {0, 0, 0, 0, -1, "set truncated to -1"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    struct acorn_row row = fine();
    row.reward = cases[i].reward;
    row.terminated = cases[i].terminated;
    row.truncated = cases[i].truncated;
    numbers[cases[i].at] = cases[i].number;
    expect(row_check_step(&row, &space, &error), cases[i].words);
  }
}

static void numbers_of_an_episode(void **state) {
  (void)state;
  struct acorn_row row = fine();
  row.num_numbers = 2;
  row.number_name[0] = "lives";
  row.number_name[1] = "level";
  expect(row_check_step(&row, &space, &error), NULL); // read only where an episode ends
  row.truncated = 1;
  expect(row_check_step(&row, &space, &error), NULL);
  row.number_name[0] = NULL;
  expect(row_check_step(&row, &space, &error), "the name of its number 0");
  row.number_name[0] = "a b";
  expect(row_check_step(&row, &space, &error), "the name of its number 0");
  row.number_name[0] = "a_name_of_thirty-two_characters_and_as_many_again_is_one_too_lon";
  expect(row_check_step(&row, &space, &error), "the name of its number 0");
  row.number_name[0] = "reward/of_the-way.1";
  const struct acorn_number more[] = {{"speed", NAN}, {"a%", 1}};
  row.more_numbers = more;
  row.num_more_numbers = 1;
  assert_int_equal(row_check_step(&row, &space, &error), STATUS_OK);
  row.num_more_numbers = 2;
  expect(row_check_step(&row, &space, &error), "the name of its number 3 is 'a%'");
  row.num_more_numbers = 15;
  expect(row_check_step(&row, &space, &error), "num_more_numbers is 15, which is not in 0..14");
  row.more_numbers = NULL;
  row.num_more_numbers = 2;
  expect(row_check_step(&row, &space, &error),
         "its num_more_numbers is 2, and its more_numbers NULL");
  row.num_more_numbers = 0;
  row.num_numbers = 5;
  expect(row_check_step(&row, &space, &error), "num_numbers is 5");
  row.num_numbers = -1;
  expect(row_check_step(&row, &space, &error), "num_numbers is -1");
}

static void resets(void **state) {
  (void)state;
  struct acorn_row row = fine();
  row.reward = 0;
  expect(row_check_reset(&row, &space, &error), NULL);
  row.terminated = 1;
  expect(row_check_reset(&row, &space, &error), "which belong to steps");
  row.terminated = 0;
  row.reward = NAN;
  expect(row_check_reset(&row, &space, &error), "which belong to steps");
  row.reward = 0;
  numbers[7] = NAN;
  expect(row_check_reset(&row, &space, &error), "'numbers' has nan at place 7");
}

static void actions(void **state) {
  (void)state;
  const int32_t chosen[] = {0, 2, 3, -1};
  for (int i = 0; i < 4; i++) {
    enum status status = row_check_action(&chosen[i], &space, &error);
    assert_int_equal(status, i < 2 ? STATUS_OK : STATUS_MISMATCH);
  }
  assert_non_null(strstr(error.text, "action -1, there are 0..2"));
  const struct space choices = {.discrete = 5, .choices = {.count = 2, .among = {3, 2}}};
  const int32_t made[] = {2, 1}, beyond[] = {2, 2}, below[] = {-1, 0};
  assert_int_equal(row_check_action(made, &choices, &error), STATUS_OK);
  assert_int_equal(row_check_action(beyond, &choices, &error), STATUS_MISMATCH);
  assert_non_null(strstr(error.text, "action 2 of choice 1, there are 0..1"));
  assert_int_equal(row_check_action(below, &choices, &error), STATUS_MISMATCH);
  const struct space box = {.box = 2, .low = {-1, 0}, .high = {1, 5}};
  const float inside[] = {-1, 5}, outside[] = {0, 5.5f}, none[] = {NAN, 0};
  assert_int_equal(row_check_action(inside, &box, &error), STATUS_OK);
  assert_int_equal(row_check_action(outside, &box, &error), STATUS_MISMATCH);
  assert_non_null(strstr(error.text, "5.5 for dimension 1"));
  assert_int_equal(row_check_action(none, &box, &error), STATUS_MISMATCH);
}

static void masks(void **state) {
  (void)state;
  uint8_t mask[3] = {0};
  void *tensors[] = {mask, numbers};
  const struct space masked = {
      .num_tensors = 2,
      .tensor = {{"action_mask", DTYPE_UINT8, 1, {3}}, {"numbers", DTYPE_FLOAT32, 1, {19}}},
      .discrete = 3};
  struct acorn_row row = fine();
  row.observation = tensors;
  expect(row_check_step(&row, &masked, &error), "its action_mask allows no action");
  row.truncated = 1;
  expect(row_check_step(&row, &masked, &error), NULL);
  row.truncated = 0, row.reward = 0;
  expect(row_check_reset(&row, &masked, &error), "its action_mask allows no action");
  struct space choices = masked;
  choices.choices = (struct space_choices){.count = 2, .among = {1, 2}};
  mask[0] = 1;
  expect(row_check_reset(&row, &choices, &error), "allows no action of one of the choices");
  mask[2] = 1;
  assert_int_equal(row_check_reset(&row, &choices, &error), STATUS_OK);
  memset(mask, 0, sizeof mask);
  mask[2] = 1;
  expect(row_check_step(&row, &masked, &error), NULL);
  expect(row_check_reset(&row, &masked, &error), NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps),  cmocka_unit_test(numbers_of_an_episode),
      cmocka_unit_test(resets), cmocka_unit_test(actions),
      cmocka_unit_test(masks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
