#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/process.h"

// In a child, since cmocka needs its own descriptors. Exit code 0: as it should be.
static int end_of_child(int (*run)(void)) {
  pid_t pid = fork();
  if (pid == 0) _exit(run());
  int status;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int open_what_is_closed(void) {
  close(STDIN_FILENO);
  close(STDERR_FILENO);
  process_init();
  int next = open("/dev/null", O_RDONLY);
  if (next <= STDERR_FILENO) return 1;
  return write(STDERR_FILENO, "x", 1) == 1 ? 0 : 2;
}

static int leave_what_is_open(void) {
  struct stat before, after;
  fstat(STDOUT_FILENO, &before);
  int next = dup(STDOUT_FILENO);
  close(next);
  process_init();
  fstat(STDOUT_FILENO, &after);
  return before.st_ino == after.st_ino && dup(STDOUT_FILENO) == next ? 0 : 1;
}

static int write_to_nobody(void) {
  int ends[2];
  process_init();
  if (pipe(ends) != 0) return 1;
  close(ends[0]);
  return write(ends[1], "x", 1) < 0 ? 0 : 2;
}

static int write_beyond_the_limit(void) {
  char name[] = "/tmp/test_process.XXXXXX";
  int fd = mkstemp(name);
  unlink(name);
  process_init();
  if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){1, 1}) != 0 || write(fd, "xy", 2) != 1) return 1;
  return write(fd, "z", 1) < 0 && errno == EFBIG ? 0 : 2;
}

/* SIGINT and SIGHUP alone, and only where they are ignored. */
static int know_what_is_ignored(void) {
  static const int others[] = {SIGTERM, SIGUSR1, SIGPIPE};
  for (int i = 0; i < 3; i++) signal(others[i], SIG_IGN);
  for (int i = 0; i < 3; i++)
    if (process_ignores(others[i])) return 1;
  signal(SIGHUP, SIG_IGN);
  signal(SIGINT, SIG_DFL);
  if (!process_ignores(SIGHUP) || process_ignores(SIGINT)) return 2;
  signal(SIGINT, SIG_IGN);
  return process_ignores(SIGINT) ? 0 : 3;
}

static int flush_what_was_lost(void) {
  struct error error = {""};
  if (!freopen("/dev/full", "w", stdout)) return 1;
  printf("lost");
  if (process_flush(&error) != STATUS_IO) return 2;
  return strcmp(error.text, "cannot write to stdout: No space left on device") == 0 ? 0 : 3;
}

static void test_closed_descriptors_are_opened(void **state) {
  (void)state;
  assert_int_equal(end_of_child(open_what_is_closed), 0);
}

static void test_open_descriptors_stay(void **state) {
  (void)state;
  assert_int_equal(end_of_child(leave_what_is_open), 0);
}

static void test_a_reader_that_went_away_does_not_end_the_process(void **state) {
  (void)state;
  assert_int_equal(end_of_child(write_to_nobody), 0);
}

static void test_a_file_at_its_size_limit_is_an_error(void **state) {
  (void)state;
  assert_int_equal(end_of_child(write_beyond_the_limit), 0);
}

static void test_signals_inherited_as_ignored(void **state) {
  (void)state;
  assert_int_equal(end_of_child(know_what_is_ignored), 0);
}

static int count_the_cores_that_were_given(void) {
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof(all), &all) != 0) return 1;
  if (process_cores() < 1 || process_cores() > CPU_COUNT(&all)) return 2;
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; core++)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  if (sched_setaffinity(0, sizeof(one), &one) != 0) return 3;
  return process_cores() == 1 ? 0 : 4;
}

static void test_cores_are_those_that_were_given(void **state) {
  (void)state;
  assert_int_equal(end_of_child(count_the_cores_that_were_given), 0);
}

static void test_output_that_is_lost_is_an_error(void **state) {
  (void)state;
  assert_int_equal(end_of_child(flush_what_was_lost), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_closed_descriptors_are_opened),
      cmocka_unit_test(test_open_descriptors_stay),
      cmocka_unit_test(test_a_reader_that_went_away_does_not_end_the_process),
      cmocka_unit_test(test_a_file_at_its_size_limit_is_an_error),
      cmocka_unit_test(test_signals_inherited_as_ignored),
      cmocka_unit_test(test_cores_are_those_that_were_given),
      cmocka_unit_test(test_output_that_is_lost_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
