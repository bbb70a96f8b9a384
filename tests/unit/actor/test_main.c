// The program itself as a process: exit codes, signals, what it prints. Skipped where it has not
// been built.
#include "tests/unit/actor/fake_learner.h"
#include "tests/unit/support/skip.h"

#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <sys/wait.h>

static char program[1024], output_path[64], output[4096];

/* Runs the actor with output into a file. Ends the list with NULL. */
static pid_t start(const char *const *arguments) {
  char *argv[16] = {program};
  for (int i = 0; arguments[i]; i++) argv[i + 1] = (char *)arguments[i];
  pid_t pid = fork();
  if (pid != 0) return pid;
  int file = open(output_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, 1);
  dup2(file, 2);
  // The thread sanitizer would sleep for a second at exit.
  char sanitizer[8192];
  const char *given = getenv("TSAN_OPTIONS");
  snprintf(sanitizer, sizeof(sanitizer), "%s atexit_sleep_ms=0", given ? given : "");
  setenv("TSAN_OPTIONS", sanitizer, 1);
  execv(program, argv);
  _exit(99);
}

/* Its exit code, -1 if a signal ended it; its output is then in `output`. */
static int wait_for(pid_t pid) {
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  FILE *file = fopen(output_path, "r");
  output[file ? fread(output, 1, sizeof(output) - 1, file) : 0] = '\0';
  if (file) fclose(file);
  unlink(output_path);
  if (strstr(output, "WARNING: ThreadSanitizer")) fail_msg("%s", output);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void need_program(void) {
  if (access(program, X_OK) == 0) return;
  SKIP("build/actor has not been built");
}

static void expect_words(const char *words) {
  if (!strstr(output, words)) fail_msg("'%s' is not in: %s", words, output);
}

static void wrong_options(void **state) {
  (void)state;
  static const struct {
    const char *argument, *words;
    int code;
  } cases[] = {
      {"--help", "--step_delay_us", 0},
      {"--evns=3", "envs", 2},
      {"--env=cartpol", "did you mean 'cartpole'", 2},
      {"--env_args={\"x\": 1}", "max_steps", 2},
      {"--learner=nonsense", "--learner=nonsense: address 'nonsense' has no port", 2},
      {"--streams=2", "every stream needs an environment", 2},
      {"--role=judge", "train", 2},
      {"--name=", "--name=: it needs letters", 2},
      {"--name=a b", "--name=a b: it needs letters", 2},
  };
  need_program();
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    const char *arguments[] = {cases[i].argument, NULL};
    assert_int_equal(wait_for(start(arguments)), cases[i].code);
    expect_words(cases[i].words);
  }
}

static void a_check_needs_no_cluster(void **state) {
  (void)state;
  const char *arguments[] = {"--env=catch", "--check_env", NULL};
  need_program();
  setenv("TF_CONFIG", "{", 1);
  pid_t pid = start(arguments);
  unsetenv("TF_CONFIG");
  assert_int_equal(wait_for(pid), 0);
}

static void ends_with_the_run(void **state) {
  (void)state;
  static const struct learner_act act = {
      .messages = 50, .end = RPC_OK, .end_text = "training done"};
  need_program();
  learner_start(&act, 1);
  char address[96];
  snprintf(address, sizeof(address), "--learner=%s", learner.address);
  const char *arguments[] = {address,       "--env=synthetic", "--env_args={\"actions\": 20}",
                             "--envs=3",    "--streams=1",     "--task=4",
                             "--role=eval", "--measure",       NULL};
  assert_int_equal(wait_for(start(arguments)), 0);
  expect_words("actor name=actor/4 messages=50 steps=150 ");
  learner_stop();
  assert_string_equal(learner.request.name, "actor/4/0");
  assert_string_equal(learner.request.environment, "synthetic(actions=20)");
  assert_int_equal(learner.request.num_environments, 3);
  assert_int_equal(learner.request.role, WIRE_ROLE_EVAL);
}

static void refused_or_without_a_learner(void **state) {
  (void)state;
  static const struct learner_act act = {.join = RPC_FAILED_PRECONDITION,
                                         .join_text = "catch is played here"};
  need_program();
  learner_start(&act, 1);
  char address[96];
  snprintf(address, sizeof(address), "--learner=%s", learner.address);
  const char *refused[] = {address, NULL};
  assert_int_equal(wait_for(start(refused)), 1);
  expect_words("catch is played here");
  learner_stop();
  const char *alone[] = {"--learner=unix:/tmp/acorn-actor-test-nobody", "--reconnect_s=0", NULL};
  assert_int_equal(wait_for(start(alone)), 4);
  expect_words("/tmp/acorn-actor-test-nobody");
}

/* SIGTERM or SIGINT ends it soon, and its exit code tells that from the end of the run. */
static void stop_and_expect(pid_t pid, int number) {
  int64_t start_us = clock_now_us();
  kill(pid, number);
  assert_int_equal(wait_for(pid), 128 + number);
  assert_true(clock_now_us() - start_us < 5000000);
}

static void a_signal_ends_it_within_a_second(void **state) {
  (void)state;
  static const struct learner_act hold = {.messages = LEARNER_HOLD}, answer = {.messages = 1 << 30};
  static const struct {
    const struct learner_act *act;
    const char *delay; // of an environment's step
    int number;
  } cases[] = {
      {&hold, "--step_delay_us=0", SIGTERM},
      {&answer, "--step_delay_us=1000", SIGINT},
      {&answer, "--step_delay_us=100000000", SIGTERM}, // stuck in a step
  };
  need_program();
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    learner_start(cases[i].act, 1);
    char address[96];
    snprintf(address, sizeof(address), "--learner=%s", learner.address);
    const char *arguments[] = {address, "--env=synthetic", "--env_args={\"actions\": 20}",
                               cases[i].delay, NULL};
    pid_t pid = start(arguments);
    learner_wait_for(cases[i].act == &hold ? &learner.held : &learner.messages, 1);
    clock_sleep_us(50000);
    stop_and_expect(pid, cases[i].number);
    learner_stop();
  }
}

static void a_hanging_environment_is_named(void **state) {
  (void)state;
  static const struct learner_act act = {.messages = 1 << 30};
  need_program();
  learner_start(&act, 1);
  char address[96];
  snprintf(address, sizeof(address), "--learner=%s", learner.address);
  const char *arguments[] = {address,
                             "--env=synthetic",
                             "--env_args={\"actions\": 20}",
                             "--step_delay_us=100000000",
                             "--hang_s=1",
                             NULL};
  assert_int_equal(wait_for(start(arguments)), 1);
  expect_words("environment synthetic hangs");
  learner_stop();
}

static void one_that_hangs_while_it_is_made_is_named(void **state) {
  (void)state;
  need_program();
  setenv("ACORN_SYNTHETIC_FAULT", "hang:0", 1);
  const char *arguments[] = {"--env=synthetic", "--env_step_s=1", NULL};
  assert_int_equal(wait_for(start(arguments)), 1);
  expect_words("environment synthetic hangs in create for more than 1 s (--hang_s)");
  unsetenv("ACORN_SYNTHETIC_FAULT");
}

static void sigusr1_prints_the_time_since(void **state) {
  (void)state;
  static const struct learner_act act = {.messages = LEARNER_HOLD};
  need_program();
  learner_start(&act, 1);
  char address[96];
  snprintf(address, sizeof(address), "--learner=%s", learner.address);
  const char *arguments[] = {address, "--env=synthetic", NULL};
  pid_t pid = start(arguments);
  learner_wait_for(&learner.held, 1);
  kill(pid, SIGUSR1);
  clock_sleep_us(200000);
  stop_and_expect(pid, SIGTERM);
  expect_words("actor name=actor/0 messages=0 steps=0 ");
  learner_stop();
}

int main(int argc, char **argv) {
  (void)argc;
  // build/tests/unit/actor/test_main -> build/actor, whatever the build
  char path[512];
  snprintf(path, sizeof(path), "%s", argv[0]);
  snprintf(program, sizeof(program), "%s/../../../actor", dirname(path));
  snprintf(output_path, sizeof(output_path), "/tmp/acorn-actor-test-out-%d", (int)getpid());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_options),
      cmocka_unit_test(a_check_needs_no_cluster),
      cmocka_unit_test(ends_with_the_run),
      cmocka_unit_test(refused_or_without_a_learner),
      cmocka_unit_test(a_signal_ends_it_within_a_second),
      cmocka_unit_test(a_hanging_environment_is_named),
      cmocka_unit_test(one_that_hangs_while_it_is_made_is_named),
      cmocka_unit_test(sigusr1_prints_the_time_since),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
