// Log lines go to a descriptor, so standard error is a pipe or a pseudo-terminal here and the test
// reads its other end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

static int saved_stderr, reader;

static void redirect(int writer) {
  saved_stderr = dup(STDERR_FILENO);
  dup2(writer, STDERR_FILENO);
  close(writer);
  fcntl(reader, F_SETFL, O_NONBLOCK);
}

static int to_pipe(void **state) {
  (void)state;
  int ends[2];
  if (pipe(ends) != 0) return -1;
  reader = ends[0];
  redirect(ends[1]);
  log_init("test", LOG_INFO);
  return 0;
}

static int to_terminal(void **state) {
  (void)state;
  int writer;
  struct winsize size = {.ws_row = 10, .ws_col = 20};
  if (openpty(&reader, &writer, NULL, NULL, &size) != 0) return -1;
  redirect(writer);
  setenv("TERM", "xterm", 1);
  log_init("test", LOG_INFO);
  return 0;
}

static int restore(void **state) {
  (void)state;
  log_live("");
  dup2(saved_stderr, STDERR_FILENO);
  close(saved_stderr);
  close(reader);
  return 0;
}

static const char *written(void) {
  static char text[65536];
  ssize_t got = read(reader, text, sizeof text - 1);
  text[got > 0 ? got : 0] = '\0';
  return text;
}

// The time at the start of a line is cut off, after a look at it.
static const char *after_time(const char *line) {
  char *end;
  assert_true(strtod(line, &end) < 100);
  assert_true(end > line && *end == ' ');
  return end + 1;
}

static void test_lines(void **state) {
  (void)state;
  log_info("%d actors", 4);
  assert_string_equal(after_time(written()), "test: 4 actors\n");
  log_warn("late");
  assert_string_equal(after_time(written()), "test: warning: late\n");
  log_error("gone");
  assert_string_equal(after_time(written()), "test: error: gone\n");
}

static void test_an_alias_is_not_seen(void **state) {
  (void)state;
  char text[16];
  log_alias("/proc/1/fd/3", "runs/maze");
  log_info("cannot rename %s/a to %s/b: it is full", "/proc/1/fd/3", "/proc/1/fd/3");
  assert_string_equal(after_time(written()),
                      "test: cannot rename runs/maze/a to runs/maze/b: it is full\n");
  log_named(text, sizeof(text), "/proc/1/fd/3/logs/actor-0.log");
  assert_string_equal(text, "runs/maze/logs/");
  log_alias("", "");
  log_info("%s", "/proc/1/fd/3");
  assert_string_equal(after_time(written()), "test: /proc/1/fd/3\n");
}

static void test_low_levels_are_silent(void **state) {
  (void)state;
  log_debug("detail");
  assert_string_equal(written(), "");
  log_init("test", LOG_DEBUG);
  log_debug("detail");
  assert_string_equal(after_time(written()), "test: debug: detail\n");
  log_init("test", LOG_ERROR);
  log_warn("late");
  assert_string_equal(written(), "");
}

static void test_a_live_line_off_a_terminal_is_a_line(void **state) {
  (void)state;
  log_live("12 steps");
  assert_string_equal(after_time(written()), "test: 12 steps\n");
  log_live("");
  assert_string_equal(written(), "");
}

static void test_a_live_line_stays_at_the_bottom(void **state) {
  (void)state;
  log_live("12 steps");
  assert_string_equal(written(), "\r\033[K12 steps");
  log_live("13 steps");
  assert_string_equal(written(), "\r\033[K13 steps");

  // A log line takes its place and pushes it down. The terminal writes \r\n for \n.
  log_info("hello");
  const char *text = written();
  assert_memory_equal(text, "\r\033[K", 4);
  assert_string_equal(after_time(text + 4), "test: hello\r\n13 steps");

  log_live("");
  assert_string_equal(written(), "\r\033[K");
  log_live("");
  assert_string_equal(written(), "");
  log_info("hello");
  assert_string_equal(after_time(written()), "test: hello\r\n");
}

// One row of 20 columns, the last left free; a character of several bytes is one column.
static void test_a_live_line_is_cut_to_the_terminal(void **state) {
  (void)state;
  log_live("0123456789012345678901234567890");
  assert_string_equal(written(), "\r\033[K0123456789012345678");
  log_live("ééééééééééééééééééééééééé");
  assert_string_equal(written(), "\r\033[Kééééééééééééééééééé");
  log_live("two\nlines");
  assert_string_equal(written(), "\r\033[Ktwo lines");
}

static void *write_lines(void *letter) {
  for (int i = 0; i < 100; i++)
    log_info("%c%c%c%c", *(char *)letter, *(char *)letter, *(char *)letter, *(char *)letter);
  return NULL;
}

static void test_threads_do_not_mix_lines(void **state) {
  (void)state;
  char letters[] = "abc";
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &letters[i]), 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);

  int count = 0;
  for (char *line = strtok((char *)written(), "\n"); line; line = strtok(NULL, "\n"), count++) {
    const char *message = strstr(after_time(line), ": ") + 2;
    assert_int_equal(strlen(message), 4);
    assert_true(message[0] == message[1] && message[1] == message[2] && message[2] == message[3]);
  }
  assert_int_equal(count, 300);
}

#define ON(where, test) cmocka_unit_test_setup_teardown(test, where, restore)

int main(void) {
  const struct CMUnitTest tests[] = {
      ON(to_pipe, test_lines),
      ON(to_pipe, test_an_alias_is_not_seen),
      ON(to_pipe, test_low_levels_are_silent),
      ON(to_pipe, test_a_live_line_off_a_terminal_is_a_line),
      ON(to_pipe, test_threads_do_not_mix_lines),
      ON(to_terminal, test_a_live_line_stays_at_the_bottom),
      ON(to_terminal, test_a_live_line_is_cut_to_the_terminal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
