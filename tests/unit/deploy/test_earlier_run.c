#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "deploy/earlier_run.h"

static const struct option_table *const table = &learner_options_table;
static char folder[] = "/tmp/acorn-unit-XXXXXX";
static char config[64];
static struct learner_options options;
static struct error error;

static int setup(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  snprintf(config, sizeof(config), "%s/config.txt", folder);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  unlink(config);
  return rmdir(folder);
}

// This run's options, then what it takes over from a run whose config.txt holds `text`.
static enum status take(const char *env, const char *env_args, const char *text) {
  unlink(config);
  FILE *file = text ? fopen(config, "w") : NULL;
  if (file) fputs(text, file), fclose(file);
  options_deinit(table, &options);
  options_init(table, &options);
  assert_int_equal(options_set(table, &options, "env", env, "", NULL), STATUS_OK);
  assert_int_equal(options_set(table, &options, "agent", "vtrace", "", NULL), STATUS_OK);
  if (env_args)
    assert_int_equal(options_set(table, &options, "env_args", env_args, "", NULL), STATUS_OK);
  error.text[0] = '\0';
  return earlier_run_take(&options, folder, &error);
}

#define TMAZE "env = tmaze\nagent = vtrace\nenv_args = \"{\\\"length\\\": 20}\"\nseed = 7\n"

static void the_environments_options_are_taken(void **state) {
  (void)state;
  static const struct {
    const char *env_args, *text, *expected;
  } cases[] = {
      {NULL, TMAZE, "{\"length\": 20}"},
      {"{\"length\": 30}", TMAZE, "{\"length\": 30}"}, // the user's word counts
      {NULL, NULL, "{}"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    assert_int_equal(take("tmaze", cases[i].env_args, cases[i].text), STATUS_OK);
    assert_string_equal(options.env_args, cases[i].expected);
    // The actors are told whatever counts as given.
    assert_int_equal(options_given(table, &options, "env_args"), cases[i].text != NULL);
    assert_false(options_given(table, &options, "seed"));
  }
  options_deinit(table, &options);
}

static void what_decides_on_evaluators_is_taken(void **state) {
  (void)state;
  assert_int_equal(take("tmaze", NULL, TMAZE "deterministic = true\n"), STATUS_OK);
  assert_true(options.deterministic);
  assert_false(options_given(table, &options, "over"));
  assert_int_equal(take("tmaze", NULL, TMAZE "over = train\n"), STATUS_OK);
  assert_true(options_given(table, &options, "over"));
  assert_string_equal(options.over, "train");
  assert_false(options.deterministic);
  options_deinit(table, &options);
}

static void another_run_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *env, *text, *words;
  } cases[] = {
      {"catch", TMAZE, "holds a run of tmaze vtrace, this one is of catch vtrace"},
      {"tmaze", "env = tmaze\nagent = random\n", "of tmaze random, this one is of tmaze vtrace"},
      {"tmaze", "envv = tmaze\n", "envv"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    assert_int_not_equal(take(cases[i].env, NULL, cases[i].text), STATUS_OK);
    if (!strstr(error.text, cases[i].words)) fail_msg("case %zu: %s", i, error.text);
    assert_non_null(strstr(error.text, folder));
  }
  options_deinit(table, &options);
}

/* Whether it is the same environment, the learner finds out. */
static void a_plugin_may_have_moved(void **state) {
  (void)state;
  static const char earlier[] = "env = /there/meadow.so\nagent = vtrace\nenv_args = \"{}\"\n";
  assert_int_equal(take("/here/meadow.so", NULL, earlier), STATUS_OK);
  assert_int_equal(take("/here/meadow.so", NULL, TMAZE), STATUS_OK);
  options_deinit(table, &options);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_plugin_may_have_moved),
      cmocka_unit_test(the_environments_options_are_taken),
      cmocka_unit_test(what_decides_on_evaluators_is_taken),
      cmocka_unit_test(another_run_is_refused),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
