// Each crash takes down a child; the parent reads its last words.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor/crash.h"

static char said[2048];

/* Returns how the child ended: as waitpid says it. */
static int run_child(void (*dying)(void)) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    static char stack[CRASH_STACK_BYTES];
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    for (int number = 1; number < 32; number++) signal(number, SIG_DFL); // cmocka has its own
    dup2(ends[1], STDERR_FILENO);
    crash_install("meadow");
    crash_watch_thread(stack);
    dying();
    _exit(0);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t got; (got = read(ends[0], said + length, sizeof(said) - 1 - length)) > 0;)
    length += (size_t)got;
  said[length] = '\0';
  close(ends[0]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static int *volatile nowhere = (int *)64; // not NULL, of which a sanitizer would complain

static void write_nowhere(void) {
  crash_in("step");
  *nowhere = 1;
}

static void give_up(void) {
  crash_in("reset");
  abort();
}

static void crash_elsewhere(void) {
  crash_in("step");
  crash_in(NULL);
  raise(SIGSEGV);
}

static volatile int depth = 1 << 30;
__attribute__((noinline)) static int recurse(int n) {
  volatile char frame[1024];
  frame[0] = (char)n;
  return n > depth ? 0 : recurse(n + 1) + frame[0];
}
static void overflow(void) {
  crash_in("step");
  recurse(0);
}

static void hang(void) {
  crash_limit(1);
  crash_in("create");
  for (;;) pause();
}

static void leave(void) {
  crash_in("step");
  exit(0);
}

static void leave_quickly(void) {
  crash_in("step");
  quick_exit(0);
}

/* What it forks is its own. */
static void let_a_helper_leave(void) {
  crash_in("step");
  int status;
  pid_t helper = fork();
  if (helper == 0) _exit(5);
  waitpid(helper, &status, 0);
  crash_in(NULL);
  _exit(WEXITSTATUS(status));
}

static void leave_in_good_order(void) {
  crash_in("step");
  crash_in(NULL);
  exit(0);
}

/* The end of the process is not the environment's to decide: 0 would say that the run is over. */
static void an_exit_is_named(void **state) {
  (void)state;
  static const struct {
    void (*leave)(void);
    const char *words;
  } cases[] = {
      {leave, "environment meadow ended the process in step (exit)\n"},
      {leave_quickly, "environment meadow ended the process in step (quick_exit)\n"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    int status = run_child(cases[i].leave);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_non_null(strstr(said, cases[i].words));
  }
  assert_int_equal(WEXITSTATUS(run_child(let_a_helper_leave)), 5);
  assert_string_equal(said, "");
  assert_int_equal(run_child(leave_in_good_order), 0);
  assert_string_equal(said, "");
}

static void hang_later(void) {
  crash_limit(1);
  crash_in("create");
  crash_in(NULL);
  sleep(2); // what is not the environment's may take as long as it wants
  _exit(7);
}

static void *pause_for_ever(void *context) {
  crash_in("step"); // has no limit
  for (;;) pause();
  return context;
}

static void hang_beside_another(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, pause_for_ever, NULL);
  hang();
}

static void crashes_are_named(void **state) {
  (void)state;
  static const struct {
    void (*dying)(void);
    int number;
    const char *words;
  } cases[] = {
      {write_nowhere, SIGSEGV, "environment meadow crashed in step (SIGSEGV)\n"},
      {give_up, SIGABRT, "environment meadow crashed in reset (SIGABRT)\n"},
      {overflow, SIGSEGV, "environment meadow crashed in step (SIGSEGV)\n"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    int status = run_child(cases[i].dying);
    if (!strstr(said, cases[i].words)) fail_msg("case %zu said: %s", i, said);
#ifndef __SANITIZE_ADDRESS__ // its own handler comes after ours and exits
#ifndef __SANITIZE_THREAD__
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), cases[i].number);
#endif
#endif
    assert_int_not_equal(status, 0);
  }
}

static void what_is_not_the_environments_is_not_blamed_on_it(void **state) {
  (void)state;
  assert_int_not_equal(run_child(crash_elsewhere), 0);
  assert_null(strstr(said, "meadow"));
}

static void a_hang_ends_the_process(void **state) {
  (void)state;
  static void (*const hangs[])(void) = {hang, hang_beside_another};
  for (int i = 0; i < 2; i++) {
    int status = run_child(hangs[i]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    static const char words[] = "environment meadow hangs in create for more than 1 s (--hang_s)\n";
    assert_non_null(strstr(said, words));
  }
  assert_int_equal(WEXITSTATUS(run_child(hang_later)), 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(crashes_are_named),
      cmocka_unit_test(an_exit_is_named),
      cmocka_unit_test(what_is_not_the_environments_is_not_blamed_on_it),
      cmocka_unit_test(a_hang_ends_the_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
