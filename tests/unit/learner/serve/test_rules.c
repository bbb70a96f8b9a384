/* Every pair of flags that may and may not follow each other, written out; and numbers that are not
 * finite. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "learner/serve/rules.h"

enum { F = STEP_FIRST, D = STEP_TERMINATED, C = STEP_TRUNCATED, A = STEP_ABSENT };

static enum status follow(uint8_t before, uint8_t now, float reward, bool started) {
  struct error error;
  uint8_t last = before;
  return rules_check_flags(&now, &reward, &last, 1, started, &error);
}

static void a_life_begins_with_first(void **state) {
  (void)state;
  for (int now = 0; now < 16; now++)
    assert_int_equal(follow(0, (uint8_t)now, 0, false) == STATUS_OK, now == F || now == A);
}

static void within_an_episode(void **state) {
  (void)state;
  const uint8_t before[] = {0, F, F | D};
  for (int b = 0; b < 3; b++)
    for (int now = 0; now < 16; now++) {
      bool allowed = now == 0 || now == C || now == (F | D) || now == A;
      /* terminated without first and truncated with first are the decoder's to refuse or to mend */
      if (now & (D | C) && now != (F | D) && now != C) continue;
      assert_int_equal(follow(before[b], (uint8_t)now, 1, true) == STATUS_OK, allowed);
    }
}

static void after_a_truncated_row(void **state) {
  (void)state;
  for (int now = 0; now < 16; now++)
    assert_int_equal(follow(C, (uint8_t)now, 0, true) == STATUS_OK, now == F || now == A);
  assert_int_equal(follow(C, F, 1, true), STATUS_INVALID);
}

static void absent_rows_keep_what_was_before(void **state) {
  (void)state;
  struct error error;
  const uint8_t rows[] = {A, A, F, A, 0, C, A, F};
  const uint8_t bad[] = {A, 0};
  uint8_t last = 0;
  float reward = 0;
  for (size_t i = 0; i < sizeof(rows); i++)
    assert_int_equal(rules_check_flags(&rows[i], &reward, &last, 1, i > 0, &error), STATUS_OK);
  last = 0;
  assert_int_equal(rules_check_flags(&bad[0], &reward, &last, 1, false, &error), STATUS_OK);
  assert_int_equal(rules_check_flags(&bad[1], &reward, &last, 1, true, &error), STATUS_INVALID);
}

static void the_sentence_names_the_environment(void **state) {
  (void)state;
  struct error error;
  uint8_t flags[] = {0, F}, last[] = {F, F};
  float reward[] = {0, 0};
  assert_int_equal(rules_check_flags(flags, reward, last, 2, true, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "environment 1"));
}

static void numbers_must_be_finite(void **state) {
  (void)state;
  struct space space = {
      .num_tensors = 2,
      .tensor = {{"pixels", DTYPE_UINT8, 1, {5}}, {"state", DTYPE_FLOAT32, 1, {3}}},
      .discrete = 2};
  struct wire_layout layout;
  wire_layout_of_space(&layout, &space, 2);
  _Alignas(16) uint8_t rows[2 * 64];
  const float bad[] = {NAN, INFINITY, -INFINITY};
  struct error error;
  for (int k = 0; k < 3; k++) {
    float reward[] = {0, 1};
    uint8_t flags[] = {0, 0};
    memset(rows, 0xff, sizeof(rows)); /* padding and uint8 may hold anything */
    for (int i = 0; i < 2; i++)
      memset(rows + (size_t)i * layout.row_stride + layout.tensor[1].row_offset, 0, 12);
    assert_int_equal(rules_check_finite(flags, reward, rows, &layout, &space, &error), STATUS_OK);
    memcpy(rows + layout.row_stride + layout.tensor[1].row_offset + 8, &bad[k], 4);
    assert_int_equal(rules_check_finite(flags, reward, rows, &layout, &space, &error),
                     STATUS_INVALID);
    assert_non_null(strstr(error.text, "environment 1: element 2 of observation 'state'"));
    reward[1] = bad[k];
    assert_int_equal(rules_check_finite(flags, reward, rows, &layout, &space, &error),
                     STATUS_INVALID);
    assert_non_null(strstr(error.text, "reward"));
    flags[1] = STEP_ABSENT;
    assert_int_equal(rules_check_finite(flags, reward, rows, &layout, &space, &error), STATUS_OK);
  }
}

/* At every place of rows of every length, so in the blocks and behind them. */
static void every_number_is_looked_at(void **state) {
  (void)state;
  static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, 1.1e9f, -3e38f};
  static const float good[] = {1e9f, -1e9f, 0, -0.0f, 1e-45f};
  struct error error;
  _Alignas(16) float rows[2 * 12];
  for (int size = 1; size <= 9; size++) {
    struct space space = {
        .num_tensors = 1, .tensor = {{"x", DTYPE_FLOAT32, 1, {size}}}, .discrete = 2};
    struct wire_layout layout;
    wire_layout_of_space(&layout, &space, 2);
    const float reward[2] = {0};
    const uint8_t flags[2] = {0}, *bytes = (const uint8_t *)rows;
    for (int at = 0; at < 2 * size; at++) {
      float *x = rows + (size_t)(at / size) * (layout.row_stride / 4) + at % size;
      memset(rows, 0, sizeof(rows));
      for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        *x = good[i];
        assert_int_equal(rules_check_finite(flags, reward, bytes, &layout, &space, &error),
                         STATUS_OK);
      }
      for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        *x = bad[i];
        assert_int_equal(rules_check_finite(flags, reward, bytes, &layout, &space, &error),
                         STATUS_INVALID);
      }
    }
  }
}

static void a_mask_allows_some_action(void **state) {
  (void)state;
  struct space space = {
      .num_tensors = 2,
      .tensor = {{"x", DTYPE_FLOAT32, 1, {5}}, {"action_mask", DTYPE_UINT8, 1, {3}}},
      .discrete = 3};
  struct wire_layout layout;
  wire_layout_of_space(&layout, &space, 2);
  uint8_t rows[256] = {0}, *mask[2];
  assert_true(2 * layout.row_stride <= sizeof(rows));
  for (int i = 0; i < 2; i++)
    mask[i] = rows + (size_t)i * layout.row_stride + layout.tensor[1].row_offset;
  mask[0][2] = 1;
  static const uint8_t needs_one[] = {0, F, F | D};
  struct error error;
  for (size_t k = 0; k < sizeof(needs_one); k++) {
    const uint8_t flags[2] = {0, needs_one[k]};
    mask[1][0] = 0;
    assert_int_equal(rules_check_mask(flags, rows, &layout, &space, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "environment 1: its action_mask allows no action"));
    mask[1][0] = 9;
    assert_int_equal(rules_check_mask(flags, rows, &layout, &space, &error), STATUS_OK);
  }
  mask[1][0] = 0;
  const uint8_t truncated[2] = {0, C}, absent[2] = {0, STEP_ABSENT}, none[2] = {0};
  assert_int_equal(rules_check_mask(truncated, rows, &layout, &space, &error), STATUS_OK);
  assert_int_equal(rules_check_mask(absent, rows, &layout, &space, &error), STATUS_OK);
  space.discrete = 0, space.box = 3; /* then it is an observation like any other */
  assert_int_equal(rules_check_mask(none, rows, &layout, &space, &error), STATUS_OK);
}

static void episodes_end_with_their_row(void **state) {
  (void)state;
  const uint8_t flags[] = {F | D, 0, C};
  const struct {
    struct wire_episode episode[2];
    int count;
    enum status status;
  } cases[] = {
      {{{.environment = 0}, {.environment = 2}}, 2, STATUS_OK},
      {{{.environment = 2}, {.environment = 0}}, 2, STATUS_OK},
      {{{.environment = 1}}, 1, STATUS_INVALID},
      {{{.environment = 3}}, 1, STATUS_INVALID},
      {{{.environment = 2}, {.environment = 2}}, 2, STATUS_INVALID},
      {{{.environment = 0, .episode_return = INFINITY}}, 1, STATUS_INVALID},
      {{{.environment = 0, .episode_return = NAN}}, 1, STATUS_INVALID},
      {{{.environment = 0, .episode_return = -1e300}}, 1, STATUS_INVALID},
      {{{.num_numbers = 1, .number = {{"lives", 3}}}}, 1, STATUS_OK},
      {{{.num_numbers = 1, .number = {{"lives", NAN}}}}, 1, STATUS_OK},
  };
  const float reward[3] = {0};
  uint8_t last[3] = {F, F, F};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct error error;
    last[2] = F; /* it may end again */
    assert_int_equal(rules_check_flags(flags, reward, last, 3, true, &error), STATUS_OK);
    assert_int_equal(rules_check_episodes(cases[i].episode, cases[i].count, flags, last, 3, &error),
                     cases[i].status);
  }
}

/* Of as many environments as may be, from the last to the first: without a search for each. */
static void episodes_may_come_in_any_order(void **state) {
  (void)state;
  enum { K = 1 << 16 };
  struct wire_episode *episodes = calloc(K, sizeof(*episodes));
  uint8_t *flags = malloc(K), *last = calloc(K, 1);
  memset(flags, C, K);
  struct error error;
  for (int i = 0; i < K; i++) episodes[i].environment = (uint32_t)(K - 1 - i);
  clock_t begin = clock();
  assert_int_equal(rules_check_episodes(episodes, K, flags, last, K, &error), STATUS_OK);
  assert_true(clock() - begin < CLOCKS_PER_SEC / 2);
  episodes[K - 1].environment = K - 1;
  memset(last, 0, K);
  assert_int_equal(rules_check_episodes(episodes, K, flags, last, K, &error), STATUS_INVALID);
  free(episodes);
  free(flags);
  free(last);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_life_begins_with_first),
      cmocka_unit_test(within_an_episode),
      cmocka_unit_test(after_a_truncated_row),
      cmocka_unit_test(absent_rows_keep_what_was_before),
      cmocka_unit_test(the_sentence_names_the_environment),
      cmocka_unit_test(numbers_must_be_finite),
      cmocka_unit_test(every_number_is_looked_at),
      cmocka_unit_test(a_mask_allows_some_action),
      cmocka_unit_test(episodes_end_with_their_row),
      cmocka_unit_test(episodes_may_come_in_any_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
