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
static struct acorn_env env = {.name = "meadow"};
static void (*constructor)(void); /* of its plugin; NULL: none */

enum status __wrap_registry_find(const struct acorn_env **out, const char *word,
                                 struct error *error);
enum status __wrap_registry_find(const struct acorn_env **out, const char *word,
                                 struct error *error) {
  (void)word, (void)error;
  if (constructor) constructor();
  *out = &env;
  return STATUS_OK;
}

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

static enum status ask(struct registry_answer *answer, struct error *error,
                       int (*function)(struct acorn_space *, const struct acorn_config *, char *,
                                       size_t)) {
  const struct registry_question question = {
      .word = "./meadow.so", .env_args = "{}", .asks_space = true, .limit_s = 1};
  env.space = function;
  return registry_ask_apart(answer, &question, error);
}

static void the_answer_comes_back(void **state) {
  (void)state;
  struct registry_answer answer;
  struct error error;
  assert_int_equal(ask(&answer, &error, tells), STATUS_OK);
  assert_int_equal(calls, 0);
  assert_string_equal(answer.name, "meadow");
  assert_string_equal(answer.identity, "meadow");
  assert_int_equal(answer.space.num_tensors, 1);
  assert_string_equal(answer.space.tensor[0].name, "grass");
  assert_int_equal(answer.space.tensor[0].shape[0], 3);
  assert_int_equal(answer.space.discrete, 4);
}

static int needs_no_launcher(struct acorn_space *space, const struct acorn_config *config,
                             char *message, size_t bytes) {
  return getenv("PMI_RANK") ? crashes(space, config, message, bytes)
                            : tells(space, config, message, bytes);
}

/* An environment may use MPI. */
static void it_is_no_process_of_an_mpi_job(void **state) {
  (void)state;
  struct registry_answer answer;
  struct error error;
  setenv("PMI_RANK", "0", 1);
  assert_int_equal(ask(&answer, &error, needs_no_launcher), STATUS_OK);
  assert_string_equal(getenv("PMI_RANK"), "0");
  unsetenv("PMI_RANK");
}

static void the_name_alone_can_be_asked_for(void **state) {
  (void)state;
  struct registry_answer answer;
  struct error error;
  env.space = crashes;
  assert_int_equal(
      registry_ask_apart(&answer, &(struct registry_question){.word = "./meadow.so"}, &error),
      STATUS_OK);
  assert_string_equal(answer.name, "meadow");
}

static void so_does_a_refusal(void **state) {
  (void)state;
  struct registry_answer answer;
  struct error error;
  assert_int_equal(ask(&answer, &error, refuses), STATUS_INVALID);
  assert_string_equal(error.text, "environment meadow: no such meadow");
}

/* Asks; a second passes where it hangs. */
static void expect(const char *words,
                   int (*function)(struct acorn_space *, const struct acorn_config *, char *,
                                   size_t)) {
  struct registry_answer answer;
  struct error error = {""};
  int64_t start_us = clock_now_us();
  assert_int_equal(ask(&answer, &error, function), STATUS_IO);
  assert_string_equal(error.text, words);
  assert_true(clock_now_us() - start_us < 4 * 1000 * 1000);
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
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
    expect(cases[i].words, cases[i].function);
}

static void crash(void) {
  crashes(NULL, NULL, NULL, 0);
}
static void leave(void) {
  exit(0);
}
static void hang(void) {
  hangs(NULL, NULL, NULL, 0);
}

static void so_is_that_of_a_constructor(void **state) {
  (void)state;
  static const struct {
    void (*function)(void);
    const char *words;
  } cases[] = {
      {crash, "environment ./meadow.so crashed in dlopen (SIGKILL)"},
      {leave, "environment ./meadow.so ended the process in dlopen (exit code 0)"},
      {hang, "environment ./meadow.so hangs in dlopen for more than 1 s (--hang_s)"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    constructor = cases[i].function;
    expect(cases[i].words, tells);
  }
  constructor = NULL;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_answer_comes_back),    cmocka_unit_test(it_is_no_process_of_an_mpi_job),
      cmocka_unit_test(so_does_a_refusal),        cmocka_unit_test(the_name_alone_can_be_asked_for),
      cmocka_unit_test(every_other_end_is_named), cmocka_unit_test(so_is_that_of_a_constructor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
