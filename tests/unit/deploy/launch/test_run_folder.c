#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "deploy/launch/private_folder.h"
#include "deploy/launch/run_folder.h"

static char home[PRIVATE_FOLDER_BYTES]; // of this test
static char runs[128];
static struct error error;

static int setup(void **state) {
  (void)state;
  setenv("TZ", "NPT-5:45", 1); // Kathmandu, without its file
  tzset();
  if (private_folder_create(home, &error) != STATUS_OK) return -1;
  snprintf(runs, sizeof(runs), "%s/runs", home);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  private_folder_remove(home);
  return access(home, F_OK) == 0 ? -1 : 0;
}

// A folder under runs, with a config.txt if it holds a run.
static void make_run(const char *name, bool holds_run) {
  char path[256];
  mkdir(runs, 0777);
  snprintf(path, sizeof(path), "%s/%s", runs, name);
  assert_int_equal(mkdir(path, 0777), 0);
  strcat(path, "/config.txt");
  if (holds_run) fclose(fopen(path, "w"));
}

static void a_new_folder_is_named_after_the_run_and_its_start(void **state) {
  (void)state;
  static const char *const names[] = {"cartpole-vtrace-19700102-000001Z",
                                      "cartpole-vtrace-19700102-000001Z-1",
                                      "cartpole-vtrace-19700102-000001Z-2"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    char path[PATH_MAX], expected[256];
    snprintf(expected, sizeof(expected), "%s/%s", runs, names[i]);
    assert_int_equal(
        run_folder_create(path, sizeof(path), runs, "cartpole", "vtrace", 86401, &error),
        STATUS_OK);
    assert_string_equal(path, expected);
    assert_int_equal(access(path, F_OK), 0);
  }
}

static void a_folder_that_cannot_be_made_is_an_error(void **state) {
  (void)state;
  char path[PATH_MAX], small[20];
  assert_int_equal(
      run_folder_create(path, sizeof(path), "/proc/nowhere/runs", "cartpole", "vtrace", 0, &error),
      STATUS_IO);
  assert_non_null(strstr(error.text, "/proc/nowhere/runs"));
  assert_non_null(strstr(error.text, "--logdir"));
  assert_int_equal(run_folder_create(small, sizeof(small), runs, "cartpole", "vtrace", 0, &error),
                   STATUS_INVALID);
}

static void the_newest_run_is_found_by_its_name(void **state) {
  (void)state;
  static const struct {
    const char *name;
    bool holds_run;
    const char *newest; // after this folder was made; NULL: none
  } steps[] = {
      {"cartpole-vtrace-20260101-000000Z", false, NULL},
      {"cartpole-vtrace-20260101-000001Z", true, "cartpole-vtrace-20260101-000001Z"},
      {"cartpole-vtrace-20251231-235959Z", true, "cartpole-vtrace-20260101-000001Z"},
      {"cartpole-vtrace-20260101-000001Z-2", true, "cartpole-vtrace-20260101-000001Z-2"},
      {"cartpole-vtrace-20260101-000001Z-10", true, "cartpole-vtrace-20260101-000001Z-10"},
      {"cartpole-random-20270101-000000Z", true, "cartpole-vtrace-20260101-000001Z-10"},
      {"catch-vtrace-20270101-000000Z", true, "cartpole-vtrace-20260101-000001Z-10"},
      {"cartpole-vtrace-20270101-000000Zx", true, "cartpole-vtrace-20260101-000001Z-10"},
      {"cartpole-vtrace-20270101-000000x", true, "cartpole-vtrace-20260101-000001Z-10"},
      {"cartpole-vtrace-2027", true, "cartpole-vtrace-20260101-000001Z-10"},
      {"cartpole-vtrace-20270101-000000Z-", true, "cartpole-vtrace-20260101-000001Z-10"},
      {"cartpole-vtrace-20270101-000000-2", true, "cartpole-vtrace-20270101-000000-2"},
  };
  char path[PATH_MAX] = "as it was";
  assert_false(run_folder_newest(path, sizeof(path), runs, "cartpole", "cartpole", "vtrace"));
  for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
    make_run(steps[i].name, steps[i].holds_run);
    bool found = run_folder_newest(path, sizeof(path), runs, "cartpole", "cartpole", "vtrace");
    assert_int_equal(found, steps[i].newest != NULL);
    assert_string_equal(found ? strrchr(path, '/') + 1 : path,
                        found ? steps[i].newest : "as it was");
  }
}

// Of an environment with games; older runs do not name theirs.
static void a_run_of_a_game_is_found_by_its_label(void **state) {
  (void)state;
  static const struct {
    const char *label, *newest;
  } cases[] = {{"atari-Pong", "atari-Pong-vtrace-20260102-000000Z"},
               {"atari-Breakout", "atari-Breakout-vtrace-20260103-000000Z"},
               {"atari-Tennis", "atari-vtrace-20260101-000000Z"},
               {NULL, "atari-Breakout-vtrace-20260103-000000Z"}};
  make_run("atari-vtrace-20260101-000000Z", true);
  make_run("atari-Pong-vtrace-20260102-000000Z", true);
  make_run("atari-Breakout-vtrace-20260103-000000Z", true);
  make_run("atari-Pong-r2d2-20260104-000000Z", true);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char path[PATH_MAX];
    assert_true(run_folder_newest(path, sizeof(path), runs, "atari", cases[i].label, "vtrace"));
    assert_string_equal(strrchr(path, '/') + 1, cases[i].newest);
  }
}

static void a_private_folder_is_short_and_goes_with_its_contents(void **state) {
  (void)state;
  char path[PRIVATE_FOLDER_BYTES], inner[128];
  setenv("XDG_RUNTIME_DIR", home, 1);
  assert_int_equal(private_folder_create(path, &error), STATUS_OK);
  assert_memory_equal(path, home, strlen(home));
  snprintf(inner, sizeof(inner), "%s/logs", path);
  mkdir(inner, 0777);
  strcat(inner, "/actor-0.log");
  fclose(fopen(inner, "w"));
  private_folder_remove(path);
  assert_int_not_equal(access(path, F_OK), 0);

  // What cannot serve is passed over for /tmp.
  static const char *const unusable[] = {
      "/proc/nowhere", "", "relative",
      "/tmp/a/path/that/is/much/too/long/for/the/socket/of/a/run/in/it"};
  for (size_t i = 0; i < sizeof(unusable) / sizeof(unusable[0]); i++) {
    setenv("XDG_RUNTIME_DIR", unusable[i], 1);
    assert_int_equal(private_folder_create(path, &error), STATUS_OK);
    assert_memory_equal(path, "/tmp/acorn-", strlen("/tmp/acorn-"));
    private_folder_remove(path);
  }
  unsetenv("XDG_RUNTIME_DIR");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_new_folder_is_named_after_the_run_and_its_start),
      TEST(a_folder_that_cannot_be_made_is_an_error),
      TEST(the_newest_run_is_found_by_its_name),
      TEST(a_run_of_a_game_is_found_by_its_label),
      TEST(a_private_folder_is_short_and_goes_with_its_contents),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
