// A failed CHECK ends the process, so it fails in a child and the parent reads what it said.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "tests/unit/support/skip.h"

// Runs `failing` in a child. Returns the signal that ended it; `said` gets what it printed to
// stderr.
static int run_child(void (*failing)(void), char said[2048]) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    // A core file of every run of this test would be litter.
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    failing();
    _exit(0);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t got; (got = read(ends[0], said + length, 2047 - length)) > 0;) length += (size_t)got;
  said[length] = '\0';
  close(ends[0]);

  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void fail_sum(void) {
  CHECK(1 + 1 == 3, "%s has %d rows", "the page", 12);
}

static void fail_alloc(void) {
  check_alloc(SIZE_MAX / 4, 8);
}

static void test_a_failure_says_what_and_where(void **state) {
  (void)state;
  char said[2048];
  assert_int_equal(run_child(fail_sum, said), SIGABRT);
  assert_non_null(strstr(said, "test_check.c:"));
  assert_non_null(strstr(said, ": CHECK(1 + 1 == 3) failed: the page has 12 rows\n"));
}

static void test_a_size_that_overflows_is_a_failure(void **state) {
  (void)state;
  char said[2048];
  assert_int_equal(run_child(fail_alloc, said), SIGABRT);
  assert_non_null(strstr(said, "more than memory can address"));
}

static void fail_much(void) {
  free(check_alloc(SIZE_MAX / 4, 1));
}

static void test_without_memory_it_gives_up(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  SKIP("a sanitizer's malloc ends the process itself");
#endif
  char said[2048];
  assert_int_equal(run_child(fail_much, said), 0);
  assert_non_null(strstr(said, "error: out of memory: "));
}

static void test_true_does_nothing(void **state) {
  (void)state;
  int evaluated = 0;
  CHECK(++evaluated == 1, "evaluated %d times", evaluated);
  assert_int_equal(evaluated, 1);
}

static void test_memory_is_aligned_and_zero(void **state) {
  (void)state;
  static const size_t counts[] = {0, 1, 7, 64, 1000};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    unsigned char *memory = check_alloc(counts[i], 3);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    for (size_t byte = 0; byte < counts[i] * 3; byte++) assert_int_equal(memory[byte], 0);
    memset(memory, 0xff, counts[i] * 3);
    free(memory);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_failure_says_what_and_where),
      cmocka_unit_test(test_a_size_that_overflows_is_a_failure),
      cmocka_unit_test(test_without_memory_it_gives_up),
      cmocka_unit_test(test_true_does_nothing),
      cmocka_unit_test(test_memory_is_aligned_and_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
