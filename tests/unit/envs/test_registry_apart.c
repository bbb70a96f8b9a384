/* What an environment may do where it is asked what it looks like, and that it harms only the
 * process in which it is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/resource.h>

#include "common/base/clock.h"
#include "envs/registry.h"

static int calls; /* in this process */

static int tell(struct acorn_space *space) {
  calls++;
  space->num_tensors = 1;
  space->tensor[0] = (struct acorn_tensor){"grass", ACORN_FLOAT32, 1, {3}};
  space->discrete = 4;
  return 0;
}

#define SPACE(name)                                                                          \
  static int name(struct acorn_space *space, const struct acorn_config *config, char *error, \
                  size_t error_bytes)

#define UNUSED (void)space, (void)config, (void)error, (void)error_bytes

SPACE(tells) {
  UNUSED;
  return tell(space);
}
SPACE(refuses) {
  UNUSED;
  strcpy(error, "no such meadow");
  return -1;
}
SPACE(leaves_at_once) {
  UNUSED;
  _exit(0);
}
SPACE(leaves) {
  UNUSED;
  exit(0);
}
SPACE(crashes) {
  UNUSED;
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  raise(SIGKILL); // which no sanitizer handles
  return 0;
}
SPACE(hangs) {
  UNUSED;
  sleep(1000);
  return 0;
}
/* Its helper holds every file of the process open for longer than the test may take. */
SPACE(leaves_a_helper) {
  UNUSED;
  if (fork() == 0) {
    sleep(5);
    _exit(0);
  }
  _exit(3);
}

static enum status ask(struct space *space, struct error *error,
                       int (*function)(struct acorn_space *, const struct acorn_config *, char *,
                                       size_t)) {
  const struct acorn_env env = {.name = "meadow", .space = function};
  return registry_space_apart(space, &env, NULL, 1, error);
}

static void the_answer_comes_back(void **state) {
  (void)state;
  struct space space;
  struct error error;
  assert_int_equal(ask(&space, &error, tells), STATUS_OK);
  assert_int_equal(calls, 0);
  assert_int_equal(space.num_tensors, 1);
  assert_string_equal(space.tensor[0].name, "grass");
  assert_int_equal(space.tensor[0].shape[0], 3);
  assert_int_equal(space.discrete, 4);
}

static void so_does_a_refusal(void **state) {
  (void)state;
  struct space space;
  struct error error;
  assert_int_equal(ask(&space, &error, refuses), STATUS_INVALID);
  assert_string_equal(error.text, "environment meadow: no such meadow");
}

static void every_other_end_is_named(void **state) {
  (void)state;
  static const struct {
    int (*function)(struct acorn_space *, const struct acorn_config *, char *, size_t);
    const char *words;
  } cases[] = {
      {leaves_at_once, "environment meadow ended the process in space (exit code 0)"},
      {leaves, "environment meadow ended the process in space (exit code 0)"},
      {leaves_a_helper, "environment meadow ended the process in space (exit code 3)"},
      {crashes, "environment meadow crashed in space (SIGKILL)"},
      {hangs, "environment meadow hangs in space for more than 1 s (--hang_s)"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    struct space space;
    struct error error = {""};
    int64_t start_us = clock_now_us();
    assert_int_equal(ask(&space, &error, cases[i].function), STATUS_IO);
    assert_string_equal(error.text, cases[i].words);
    assert_true(clock_now_us() - start_us < 4 * 1000 * 1000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_answer_comes_back),
      cmocka_unit_test(so_does_a_refusal),
      cmocka_unit_test(every_other_end_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
