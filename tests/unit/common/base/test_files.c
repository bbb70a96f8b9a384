#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/base/files.h"
#include "tests/unit/support/temporary_folder.h"

/* The hard limit stays: it could not be raised again. */
static struct rlimit before;

static int setup(void **state) {
  (void)state;
  return getrlimit(RLIMIT_NOFILE, &before);
}

static int teardown(void **state) {
  (void)state;
  return setrlimit(RLIMIT_NOFILE, &before);
}

static void test_the_limit_is_raised(void **state) {
  (void)state;
  struct rlimit low = {20, before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
  int limit = files_limit();
  assert_int_equal(limit, before.rlim_max < INT_MAX ? (int)before.rlim_max : INT_MAX);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &low), 0);
  assert_true(low.rlim_cur == low.rlim_max);
}

static void test_there_is_always_a_reserve(void **state) {
  (void)state;
  static const int cases[][2] = {{0, 0},     {8, 0},     {9, 1},     {31, 23},
                                 {32, 24},   {64, 48},   {256, 192}, {257, 193},
                                 {512, 448}, {513, 449}, {1024, 960}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    assert_int_equal(files_room(cases[i][0]), cases[i][1]);
  for (int limit = 1; limit < 2000; limit++)
    assert_true(files_room(limit) >= files_room(limit - 1));
}

static void test_more_than_there_are_is_refused(void **state) {
  (void)state;
  struct error error = {""};
  int room = files_room(files_limit());
  assert_int_equal(files_check("the learner", 10, room - 10, &error), STATUS_OK);
  assert_int_equal(files_check("the learner", 10, room - 9, &error), STATUS_EXHAUSTED);
  assert_non_null(strstr(error.text, "and the learner needs"));
  assert_non_null(strstr(error.text, "10 of its own"));
  assert_non_null(strstr(error.text, "raise the limit (ulimit -n"));
}

static void expect_reason(const char *path, int number, const char *reason) {
  const char *why = NULL;
  errno = 0;
  assert_int_equal(files_open_regular(path, &why), -1);
  assert_int_equal(errno, number);
  assert_string_equal(why, reason);
  assert_null(files_read(path, &why));
}

/* Each of these would wait for ever, or never end. */
static void test_only_a_regular_file_is_read(void **state) {
  (void)state;
  static const char other[] = "it is no regular file";
  char folder[TEMPORARY_FOLDER_BYTES], path[TEMPORARY_PATH_BYTES], line[16];
  temporary_folder_make(folder);
  snprintf(path, sizeof(path), "%s/file", folder);
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_reason(path, ENXIO, other);
  expect_reason("/dev/zero", ENXIO, other);
  expect_reason(folder, ENXIO, other);
  expect_reason("/dev/null/file", ENOTDIR, strerror(ENOTDIR));

  /* A file takes the place of what is there. */
  FILE *file = files_create(path);
  assert_non_null(file);
  fputs("text", file);
  fclose(file);
  const char *why;
  file = files_read(path, &why);
  assert_non_null(fgets(line, sizeof(line), file));
  fclose(file);
  assert_string_equal(line, "text");
  assert_null(files_create(folder));
  temporary_folder_remove(folder);
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_the_limit_is_raised),
      TEST(test_there_is_always_a_reserve),
      TEST(test_more_than_there_are_is_refused),
      TEST(test_only_a_regular_file_is_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
