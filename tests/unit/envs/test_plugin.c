// What is wrong with a plugin is named. That right ones run: tests/integration/own_env.sh.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "envs/builtin.h"
#include "envs/plugin.h"
#include "envs/registry.h"

static struct error error;

static void expect_words(const char *words) {
  if (!strstr(error.text, words)) fail_msg("'%s' is not in: %s", words, error.text);
}

static void paths_and_names(void **state) {
  (void)state;
  assert_true(plugin_is_path("./my_env.so"));
  assert_true(plugin_is_path("my_env.so"));
  assert_true(plugin_is_path("/x/y"));
  assert_false(plugin_is_path("cartpole"));
  assert_false(plugin_is_path(".so"));
  assert_false(plugin_is_path(""));
  assert_true(plugin_is_name("meadow-2.x_", 11));
  assert_true(plugin_is_name("meadow(size=9)", 6));
  assert_false(plugin_is_name("", 0));
  assert_false(plugin_is_name("-meadow", 7));
  assert_false(plugin_is_name("../meadow", 9));
  assert_false(plugin_is_name("mea dow", 7));
  assert_false(plugin_is_name("meadow.so", 9));
  assert_false(plugin_is_name("abcdefghijklmnopqrstuvwxyz012345", 32));
}

/* ---- files */

static void files_that_are_none(void **state) {
  (void)state;
  const struct acorn_env *env;
  assert_int_equal(plugin_open(&env, "./nowhere.so", &error), STATUS_NOT_FOUND);
  expect_words("environment ./nowhere.so: No such file");
  assert_int_equal(plugin_open(&env, "tests/unit/envs/test_plugin.c", &error), STATUS_INVALID);
  expect_words("is not a shared object");
  assert_int_equal(plugin_open(&env, "tests/unit/envs", &error), STATUS_INVALID);

  Dl_info library;
  assert_true(dladdr((const void *)(uintptr_t)strlen, &library) != 0);
  assert_int_equal(plugin_open(&env, library.dli_fname, &error), STATUS_INVALID);
  expect_words("exports no acorn_environment");
}

static void a_library_that_cannot_be_loaded(void **state) {
  (void)state;
  char path[] = "/tmp/acorn-unit-XXXXXX";
  int file = mkstemp(path);
  assert_int_equal(write(file, "\177ELF and nothing else", 21), 21);
  close(file);
  const struct acorn_env *env;
  assert_int_equal(plugin_open(&env, path, &error), STATUS_INVALID);
  expect_words("cannot be loaded: ");
  unlink(path);
}

static void a_path_is_made_absolute(void **state) {
  (void)state;
  char *name = registry_word("cartpole"), *path = registry_word("tests/../Makefile"),
       *nowhere = registry_word("./nowhere.so");
  assert_string_equal(name, "cartpole");
  assert_int_equal(path[0], '/');
  assert_null(strstr(path, ".."));
  assert_string_equal(nowhere, "./nowhere.so");
  free(name), free(path), free(nowhere);
}

/* ---- structs */

static int space(struct acorn_space *out, const struct acorn_config *config, char *text,
                 size_t bytes) {
  (void)out, (void)config, (void)text, (void)bytes;
  return 0;
}
static void *create(const struct acorn_config *config, char *text, size_t bytes) {
  (void)config, (void)text, (void)bytes;
  return NULL;
}
static int reset(void *self, const uint64_t *seed, struct acorn_row *row, char *text,
                 size_t bytes) {
  (void)self, (void)seed, (void)row, (void)text, (void)bytes;
  return 0;
}
static int step(void *self, const void *action, struct acorn_row *row, char *text, size_t bytes) {
  (void)self, (void)action, (void)row, (void)text, (void)bytes;
  return 0;
}

static const struct acorn_option options[] = {{"size", 7, 3, 32, 1, "fields"},
                                              {"holes", 0.5, 0, 1, 0, NULL}};
static const struct acorn_option unnamed[] = {{NULL, 7, 3, 32, 1, ""}},
                                 blank[] = {{"a b", 7, 3, 32, 1, ""}},
                                 outside[] = {{"size", 2, 3, 32, 1, ""}},
                                 fraction[] = {{"size", 3.5, 3, 32, 1, ""}},
                                 twins[] = {{"size", 7, 3, 32, 1, ""}, {"size", 7, 3, 32, 1, ""}};

static const struct acorn_env good = {
    .abi = ACORN_ENV_ABI,
    .struct_bytes = sizeof(struct acorn_env),
    .name = "meadow",
    .options = options,
    .num_options = 2,
    .space = space,
    .create = create,
    .reset = reset,
    .step = step,
    .destroy = free,
};

static enum status check(const struct acorn_env *env) {
  static const struct acorn_env *const builtin[] = {&env_cartpole, NULL};
  error.text[0] = '\0';
  return plugin_check(env, builtin, &error);
}

#define WRONG(words, ...)                          \
  do {                                             \
    struct acorn_env env = good;                   \
    __VA_ARGS__;                                   \
    assert_int_equal(check(&env), STATUS_INVALID); \
    expect_words(words);                           \
  } while (0)

static void versions(void **state) {
  (void)state;
  assert_int_equal(check(&good), STATUS_OK);
  struct acorn_env later = good;
  later.struct_bytes += 64; // members that this Acorn does not know
  assert_int_equal(check(&later), STATUS_OK);
  WRONG("for version 2 of env.h and this Acorn has version 1", env.abi = 2);
  WRONG("for version 0 of env.h", env.abi = 0);
  WRONG("struct_bytes is 0", env.struct_bytes = 0);
  struct acorn_env earlier = good; // without the members that came later
  earlier.struct_bytes = offsetof(struct acorn_env, any_option);
  assert_int_equal(check(&earlier), STATUS_OK);
  WRONG("sizeof(struct acorn_env)", env.struct_bytes = earlier.struct_bytes - 1);
}

static void names_and_functions(void **state) {
  (void)state;
  WRONG("its name is NULL", env.name = NULL);
  WRONG("its name is ''", env.name = "");
  WRONG("its name is 'a/b'", env.name = "a/b");
  WRONG("'cartpole' is that of one of Acorn's own", env.name = "cartpole");
  WRONG("space is NULL", env.space = NULL);
  WRONG("create is NULL", env.create = NULL);
  WRONG("reset is NULL", env.reset = NULL);
  WRONG("step is NULL", env.step = NULL);
  WRONG("destroy is NULL", env.destroy = NULL);
}

static void option_tables(void **state) {
  (void)state;
  WRONG("num_options is -1", env.num_options = -1);
  WRONG("num_options is 65", env.num_options = 65);
  WRONG("options is NULL", env.options = NULL);
  WRONG("the name of its option 0", env.options = unnamed, env.num_options = 1);
  WRONG("the name of its option 0", env.options = blank, env.num_options = 1);
  WRONG("'size' has the default 2,", env.options = outside, env.num_options = 1);
  WRONG("not a whole number in 3..32", env.options = fraction, env.num_options = 1);
  WRONG("two of its options are named 'size'", env.options = twins);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(paths_and_names),
      cmocka_unit_test(files_that_are_none),
      cmocka_unit_test(a_library_that_cannot_be_loaded),
      cmocka_unit_test(a_path_is_made_absolute),
      cmocka_unit_test(versions),
      cmocka_unit_test(names_and_functions),
      cmocka_unit_test(option_tables),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
