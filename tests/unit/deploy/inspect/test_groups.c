/* Which runs are one experiment, and how experiments are told apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/inspect/groups.h"
#include "tests/unit/support/temporary_folder.h"

static struct groups groups;
static struct error error;

static enum status add(const char *config) {
  temporary_folder_write(temporary_folder(), "config.txt", config);
  return groups_add(&groups, temporary_folder(), &error);
}

static const char *label(int group) {
  static char text[GROUPS_LABEL_BYTES];
  groups_label(text, &groups, group);
  return text;
}

static void seeds_are_one_group(void **state) {
  (void)state;
  assert_int_equal(add("env = cartpole\nseed = 1\nlogdir = a\ntotal_steps = 5\n"), STATUS_OK);
  assert_int_equal(add("env = cartpole\nseed = 2\nlogdir = b\nnum_envs = 9\n"), STATUS_OK);
  assert_int_equal(groups.count, 1);
  assert_string_equal(label(0), "cartpole vtrace");
  groups_deinit(&groups);
}

static void a_decay_is_over_total_steps(void **state) {
  (void)state;
  assert_int_equal(add("learning_rate_decay = linear\ntotal_steps = 1000\n"), STATUS_OK);
  assert_int_equal(add("learning_rate_decay = linear\ntotal_steps = 2000\n"), STATUS_OK);
  assert_int_equal(add("learning_rate_decay = linear\ntotal_steps = 1000\nseed = 2\n"), STATUS_OK);
  assert_int_equal(groups.count, 2);
  assert_int_equal(groups.group[2], 0);
  assert_string_equal(label(1), "cartpole vtrace total_steps=2000");
  groups_deinit(&groups);
}

static void so_is_that_of_the_entropy_cost(void **state) {
  (void)state;
  assert_int_equal(add("learning_rate_decay = none\nentropy_cost_decay = 1\ntotal_steps = 1000\n"),
                   STATUS_OK);
  assert_int_equal(add("learning_rate_decay = none\nentropy_cost_decay = 1\ntotal_steps = 2000\n"),
                   STATUS_OK);
  assert_int_equal(groups.count, 2);
  groups_deinit(&groups);
}

static void other_hyperparameters_are_another_group(void **state) {
  (void)state;
  assert_int_equal(add("env = cartpole\nlearning_rate = 0.5\n"), STATUS_OK);
  assert_int_equal(add("env = cartpole\nlearning_rate = 0.25\nhidden = 8\n"), STATUS_OK);
  assert_int_equal(add("env = catch\nlearning_rate = 0.125\n"), STATUS_OK);
  assert_int_equal(add("env = cartpole\nlearning_rate = 0.5\nseed = 3\n"), STATUS_OK);
  assert_int_equal(add("env = catch\nlearning_rate = 0.125\nenv_args = \"{\\\"rows\\\": 5}\"\n"),
                   STATUS_OK);
  assert_int_equal(groups.count, 4);
  const int expected[] = {0, 1, 2, 0, 3};
  for (int i = 0; i < 5; i++) assert_int_equal(groups.group[i], expected[i]);
  assert_string_equal(label(0), "cartpole vtrace hidden=64,64 learning_rate=0.5");
  assert_string_equal(label(1), "cartpole vtrace hidden=8 learning_rate=0.25");
  assert_string_equal(label(3), "catch vtrace env_args={\"rows\": 5}");
  groups_deinit(&groups);
}

/* Two long values whose beginnings are the same. */
static void long_values_are_compared_whole(void **state) {
  (void)state;
  char config[1024];
  for (int i = 0; i < 3; i++) {
    snprintf(config, sizeof(config), "env_args = \"%0400d %d\"\n", 0, i / 2);
    assert_int_equal(add(config), STATUS_OK);
  }
  assert_int_equal(groups.count, 2);
  assert_int_equal(groups.group[1], 0);
  assert_int_equal(strlen(label(1)), GROUPS_LABEL_BYTES - 1);
  groups_deinit(&groups);
}

static void a_folder_without_a_run_is_named(void **state) {
  (void)state;
  assert_int_equal(groups_add(&groups, "/nowhere", &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "/nowhere holds no run"));
  assert_int_equal(add("nonsense = 1\n"), STATUS_INVALID);
  assert_non_null(strstr(error.text, "line 1"));
  assert_int_equal(groups.num_runs, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(seeds_are_one_group),
      cmocka_unit_test(a_decay_is_over_total_steps),
      cmocka_unit_test(so_is_that_of_the_entropy_cost),
      cmocka_unit_test(other_hyperparameters_are_another_group),
      cmocka_unit_test(long_values_are_compared_whole),
      cmocka_unit_test(a_folder_without_a_run_is_named),
  };
  return cmocka_run_group_tests(tests, temporary_folder_setup, temporary_folder_teardown);
}
