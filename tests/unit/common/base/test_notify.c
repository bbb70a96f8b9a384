#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/notify.h"

static void what_is_sent_can_be_read(void **state) {
  (void)state;
  int ends[2], pid;
  char number[16], bytes[NOTICE_BYTES];
  notify_send(NOTICE_STEPPED); // no pipe: nothing happens
  assert_int_equal(pipe(ends), 0);
  snprintf(number, sizeof number, "%d", ends[1]);
  setenv(NOTIFY_VARIABLE, number, 1);
  notify_init();
  assert_null(getenv(NOTIFY_VARIABLE));
  assert_true(fcntl(ends[1], F_GETFD) & FD_CLOEXEC);
  static const enum notice notices[] = {NOTICE_STEPPED, NOTICE_SAVING, NOTICE_FINISHED};
  for (int i = 0; i < 3; i++) {
    notify_send(notices[i]);
    assert_int_equal(read(ends[0], bytes, sizeof bytes), NOTICE_BYTES);
    assert_int_equal(notify_read(&pid, bytes), notices[i]);
    assert_int_equal(pid, getpid());
  }
  notify_send_number(NOTICE_LEARNER_SILENT, 3);
  assert_int_equal(read(ends[0], bytes, sizeof bytes), NOTICE_BYTES);
  assert_int_equal(notify_read(&pid, bytes), NOTICE_LEARNER_SILENT);
  assert_int_equal(pid, 3);
}

// To a program that is spawned, although no other one gets it.
static void it_can_be_shared(void **state) {
  (void)state;
  int ends[2], pid, how;
  char number[16], bytes[NOTICE_BYTES];
  assert_int_equal(pipe(ends), 0);
  snprintf(number, sizeof number, "%d", ends[1]);
  setenv(NOTIFY_VARIABLE, number, 1);
  notify_init();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  notify_share(&files);
  char *script[] = {"sh", "-c", "printf '%-14de\\n' 7 >&$ACORN_NOTIFY_FD", NULL};
  pid_t child;
  assert_int_equal(posix_spawn(&child, "/bin/sh", &files, NULL, script, environ), 0);
  unsetenv(NOTIFY_VARIABLE);
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_int_equal(how, 0);
  assert_int_equal(read(ends[0], bytes, sizeof bytes), NOTICE_BYTES);
  assert_int_equal(notify_read(&pid, bytes), NOTICE_LEARNER_ENDED);
  assert_int_equal(pid, 7);
  posix_spawn_file_actions_destroy(&files);
}

static void what_is_none_is_refused(void **state) {
  (void)state;
  static const char *const texts[] = {"0             s\n", "-7            s\n",
                                      "x             s\n", "17            S\n",
                                      "17            s ",  "17             \n"};
  char bytes[NOTICE_BYTES];
  int pid;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    assert_int_equal(strlen(texts[i]), NOTICE_BYTES);
    memcpy(bytes, texts[i], NOTICE_BYTES);
    assert_int_equal(notify_read(&pid, bytes), NOTICE_NONE);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_sent_can_be_read),
      cmocka_unit_test(it_can_be_shared),
      cmocka_unit_test(what_is_none_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
