/* What follows a run: it runs, its words go to stderr, a signal ends it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "deploy/after_run.h"

/* Runs a shell's line with stderr in a file; returns what it said there. */
static const char *follow(const char *line) {
  static char said[256];
  char *command[] = {"/bin/sh", "-c", (char *)line, NULL};
  FILE *file = tmpfile();
  int own = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  after_run(command);
  dup2(own, STDERR_FILENO);
  close(own);
  rewind(file);
  said[fread(said, 1, sizeof(said) - 1, file)] = '\0';
  fclose(file);
  return said;
}

static void stdout_becomes_stderr(void **state) {
  (void)state;
  assert_string_equal(follow("echo a curve; echo two >&2; exit 7"), "a curve\ntwo\n");
}

static void a_command_that_is_not_there_is_said(void **state) {
  (void)state;
  char *command[] = {"/nowhere/plot", NULL};
  after_run(command); /* and the caller goes on */
}

static void a_signal_ends_it(void **state) {
  (void)state;
  int64_t start_us = clock_now_us();
  char line[128];
  snprintf(line, sizeof(line), "sleep 0.1; kill -INT %d; sleep 20", (int)getpid());
  follow(line);
  assert_true(clock_now_us() - start_us < 5000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stdout_becomes_stderr),
      cmocka_unit_test(a_command_that_is_not_there_is_said),
      cmocka_unit_test(a_signal_ends_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
