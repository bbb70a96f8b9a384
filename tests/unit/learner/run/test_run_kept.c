/* Which checkpoints are kept besides the newest: when they are due, and what is in the folder. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "learner/run/run_kept.h"

enum { SECOND = 1000000, MINUTE = 60 * SECOND };

static char folder[64];
static struct run_kept kept;
static const struct progress_returns none = {.mean = NAN};

static int setup(void **state) {
  (void)state;
  snprintf(folder, sizeof(folder), "/tmp/kept-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  run_kept_init(&kept, folder, 0, 0);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  return system(command);
}

static struct progress_returns mean_of(double mean, int episodes) {
  return (struct progress_returns){.count = episodes, .window = episodes, .mean = mean};
}

/* At that second, without evaluation. */
static int due(double mean, int episodes, int second) {
  struct progress_returns train = mean_of(mean, episodes);
  return run_kept_due(&kept, &train, &none, 0, 0, (int64_t)second * SECOND, MINUTE);
}

static int due_by_evaluation(double mean, int second) {
  struct progress_returns train = mean_of(1000, 100), eval = mean_of(mean, 100);
  return run_kept_due(&kept, &train, &eval, 0, 0, (int64_t)second * SECOND, MINUTE);
}

static void write_kinds(int kinds, int64_t updates) {
  int64_t version = updates;
  struct checkpoint_item item = {
      .name = CHECKPOINT_VERSION, .dtype = CHECKPOINT_INT64, .rank = 1, .shape = {1}};
  item.data = &version;
  struct error error;
  assert_int_equal(run_kept_write(&kept, kinds, folder, updates, &item, 1, &error), STATUS_OK);
}

static bool is_there(const char *name) {
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  return access(path, F_OK) == 0;
}

/* ---- tests */

/* As on a full disk: the score does not count. */
static void one_that_was_not_written_is_due_again(void **state) {
  (void)state;
  assert_int_equal(due(5, 100, 60), KEPT_BEST);
  write_kinds(KEPT_BEST, 1);
  assert_int_equal(due(9, 100, 120), KEPT_BEST);
  run_kept_forget(&kept, folder);
  assert_int_equal(due(5, 100, 180), 0);
  assert_int_equal(due(9, 100, 240), KEPT_BEST);
}

static void a_higher_mean_of_enough_episodes_is_the_best(void **state) {
  (void)state;
  assert_int_equal(due(50, 99, 2), 0);
  assert_int_equal(due(10, 100, 3), KEPT_BEST);
  assert_int_equal(due(11, 100, 3), 0); /* too soon */
  assert_int_equal(due(9, 100, 5), 0);
  assert_int_equal(due(11, 100, 6), KEPT_BEST);
  assert_int_equal(due(NAN, 100, 9), 0);
}

static void evaluation_replaces_training(void **state) {
  (void)state;
  assert_int_equal(due(500, 100, 2), KEPT_BEST);
  assert_int_equal(due_by_evaluation(20, 4), KEPT_BEST);
  assert_int_equal(due_by_evaluation(19, 8), 0);
}

/* While evaluators play, whatever training has; a run that was resumed without them goes on. */
static void training_replaces_evaluation_where_none_is_played(void **state) {
  (void)state;
  kept.is_evaluated = true;
  assert_int_equal(due_by_evaluation(20, 2), KEPT_BEST);
  assert_int_equal(due(500, 100, 4), 0);
  kept.is_evaluated = false;
  assert_int_equal(due(500, 100, 6), KEPT_BEST);
}

static void none_is_written_before_the_end_without_checkpoints(void **state) {
  (void)state;
  struct progress_returns train = mean_of(5, 100), few = mean_of(5, 3);
  assert_int_equal(run_kept_due(&kept, &train, &none, 0, 0, MINUTE, 0), 0);
  assert_int_equal(run_kept_last(&kept, &few, &none, 0, 0), KEPT_BEST);
  assert_int_equal(run_kept_last(&kept, &few, &none, 0, 0), 0);
}

static void steps_are_due_at_their_multiples(void **state) {
  (void)state;
  run_kept_init(&kept, folder, 250, 100);
  assert_int_equal(run_kept_due(&kept, &none, &none, 299, 100, 0, 0), 0);
  assert_int_equal(run_kept_due(&kept, &none, &none, 520, 100, 0, 0), KEPT_STEP);
  assert_int_equal(kept.step, 500);
  assert_int_equal(run_kept_due(&kept, &none, &none, 599, 100, 0, 0), 0);
  assert_int_equal(run_kept_last(&kept, &none, &none, 601, 100) & KEPT_STEP, KEPT_STEP);
  assert_int_equal(kept.step, 600);
}

static void there_is_one_best_and_every_step(void **state) {
  (void)state;
  char path[CHECKPOINT_PATH_BYTES];
  struct error error;
  assert_int_equal(run_kept_find_best(path, folder, &error), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, "--checkpoint=best"));
  assert_int_equal(due(10, 100, 2), KEPT_BEST);
  write_kinds(KEPT_BEST, 7);
  kept.step = 1000;
  write_kinds(KEPT_STEP, 8);
  assert_int_equal(due(11, 100, 4), KEPT_BEST);
  kept.step = 2000;
  write_kinds(KEPT_BEST | KEPT_STEP, 9);
  assert_false(is_there("best-000000000007.acorn"));
  assert_true(is_there("best-000000000009.acorn"));
  assert_true(is_there("step-000000001000.acorn") && is_there("step-000000002000.acorn"));
  assert_int_equal(run_kept_find_best(path, folder, &error), STATUS_OK);
  assert_string_equal(strrchr(path, '/'), "/best-000000000009.acorn");
}

static void a_resumed_run_knows_the_best(void **state) {
  (void)state;
  assert_int_equal(due(10, 100, 2), KEPT_BEST);
  write_kinds(KEPT_BEST, 7);
  run_kept_init(&kept, folder, 0, 0);
  assert_int_equal(due(9, 100, 2), 0);
  assert_int_equal(due(11, 100, 2), KEPT_BEST);
}

/* Of few episodes, however high they are: it is no score to beat. */
static void a_resumed_run_replaces_the_best_of_few_episodes(void **state) {
  (void)state;
  struct progress_returns few = mean_of(5, 3);
  assert_int_equal(run_kept_last(&kept, &few, &none, 0, 0), KEPT_BEST);
  write_kinds(KEPT_BEST, 7);
  run_kept_init(&kept, folder, 0, 0);
  assert_int_equal(due(4, 100, 2), KEPT_BEST);
  write_kinds(KEPT_BEST, 8);
  run_kept_init(&kept, folder, 0, 0);
  assert_int_equal(due(3, 100, 2), 0);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(one_that_was_not_written_is_due_again),
      TEST(a_higher_mean_of_enough_episodes_is_the_best),
      TEST(evaluation_replaces_training),
      TEST(training_replaces_evaluation_where_none_is_played),
      TEST(none_is_written_before_the_end_without_checkpoints),
      TEST(steps_are_due_at_their_multiples),
      TEST(there_is_one_best_and_every_step),
      TEST(a_resumed_run_knows_the_best),
      TEST(a_resumed_run_replaces_the_best_of_few_episodes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
