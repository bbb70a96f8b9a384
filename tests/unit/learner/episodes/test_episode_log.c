#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "learner/episodes/episode_log.h"
#include "learner/episodes/progress.h"

static const double no_numbers[NUMBERS_MAX] = {0};

static void add(struct episode_log *log, bool eval, int number) {
  struct progress_episode episode = {
      .eval = eval, .episode_return = number, .length = 1, .actor = "actor/0/0"};
  episode_log_add(log, &episode, number, no_numbers);
}

static void episodes_are_kept_by_role(void **state) {
  (void)state;
  struct episode_log *log = episode_log_create();
  struct episode_rows rows[2];
  for (int i = 0; i < 5; i++) add(log, i == 3, i);
  episode_log_take(log, rows);
  assert_int_equal(rows[false].count, 4);
  assert_int_equal(rows[true].count, 1);
  assert_int_equal(rows[true].row[0].step, 3);
  assert_int_equal(rows[false].one_in, 1);
  assert_string_equal(rows[false].row[2].actor, "actor/0/0");
  episode_log_take(log, rows);
  assert_int_equal(rows[false].count + rows[true].count, 0);
  episode_log_destroy(log);
}

/* Whatever their number is, the rows are evenly apart, and each stands for as many episodes. */
static void too_many_are_thinned_evenly(void **state) {
  (void)state;
  static const int counts[] = {999, 1000, 1001, 1999, 2000, 2001, 4001, 123456};
  struct episode_log *log = episode_log_create();
  for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
    struct episode_rows rows[2];
    for (int i = 0; i < counts[c]; i++) add(log, false, i);
    for (int i = 0; i < 3; i++) add(log, true, i);
    episode_log_take(log, rows);
    assert_in_range(rows[false].count, counts[c] < 1000 ? counts[c] : 500, EPISODE_LOG_ROWS);
    for (int i = 0; i < rows[false].count; i++)
      assert_int_equal(rows[false].row[i].step, i * rows[false].one_in);
    assert_int_equal((counts[c] + rows[false].one_in - 1) / rows[false].one_in, rows[false].count);
    assert_int_equal(rows[true].count, 3);
    assert_int_equal(rows[true].one_in, 1);
  }
  episode_log_destroy(log);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(episodes_are_kept_by_role),
      cmocka_unit_test(too_many_are_thinned_evenly),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
