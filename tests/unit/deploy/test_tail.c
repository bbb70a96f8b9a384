#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "deploy/tail.h"

// What tail_print prints of a file that holds `text`. Owner: the caller.
static char *tail_of(const char *text, size_t bytes, int lines) {
  char path[] = "/tmp/tail-XXXXXX";
  int fd = mkstemp(path);
  assert_int_equal(write(fd, text, bytes), (ssize_t)bytes);
  close(fd);
  char *printed;
  size_t printed_bytes;
  FILE *out = open_memstream(&printed, &printed_bytes);
  tail_print(out, path, lines);
  fclose(out);
  unlink(path);
  return printed;
}

static void the_last_lines_are_printed(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int lines;
    const char *printed;
  } cases[] = {
      {"", 2, ""},
      {"a\n", 2, "a\n"},
      {"a\nb\n", 2, "a\nb\n"},
      {"a\nb\nc\n", 2, "b\nc\n"},
      {"a\nb\nc", 2, "b\nc\n"},
      {"a\n\n\n", 2, "\n\n"},
      {"\n", 1, "\n"},
      {"abc", 1, "abc\n"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char *printed = tail_of(cases[i].text, strlen(cases[i].text), cases[i].lines);
    assert_string_equal(printed, cases[i].printed);
    free(printed);
  }
}

static void of_a_large_file_the_end_is_read(void **state) {
  (void)state;
  enum { BYTES = 100 * 1000 };
  char *text = malloc(BYTES);
  memset(text, 'x', BYTES);
  memcpy(text + BYTES - 6, "\nlast\n", 6);
  char *printed = tail_of(text, BYTES, 1);
  assert_string_equal(printed, "last\n");
  free(printed);
  printed = tail_of(text, BYTES, 5);
  assert_true(strlen(printed) <= 16 * 1024);
  free(printed);
  free(text);
}

static void a_file_that_is_not_there_is_named(void **state) {
  (void)state;
  char printed[256] = "";
  FILE *out = fmemopen(printed, sizeof(printed), "w");
  tail_print(out, "/nowhere/actor-0.log", 5);
  fclose(out);
  assert_non_null(strstr(printed, "cannot read /nowhere/actor-0.log"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_last_lines_are_printed),
      cmocka_unit_test(of_a_large_file_the_end_is_read),
      cmocka_unit_test(a_file_that_is_not_there_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
