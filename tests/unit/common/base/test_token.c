/* Token files: what they may hold, who may read them, and that a changed one counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/token.h"

#define OLD "old-old-old-old-"
#define NEW "new-new-new-new-"

static char path[64];

static void write_file(const char *text, mode_t mode) {
  char fresh[80];
  snprintf(fresh, sizeof(fresh), "%s.new", path);
  FILE *file = fopen(fresh, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file) | chmod(fresh, mode) | rename(fresh, path), 0);
}

static bool accepts(struct token_file *file, const char *header) {
  return token_file_accepts(file, header, strlen(header));
}

static void texts(void **state) {
  (void)state;
  char longest[TOKEN_MAX_BYTES + 1], too_long[TOKEN_MAX_BYTES + 2];
  memset(longest, 'x', sizeof(longest));
  memset(too_long, 'x', sizeof(too_long));
  longest[TOKEN_MAX_BYTES] = too_long[TOKEN_MAX_BYTES + 1] = '\0';
  const struct {
    const char *text;
    int count;
    const char *words; /* of the error */
  } cases[] = {
      {OLD, 1, NULL},
      {OLD "\n", 1, NULL},
      {"\n" OLD " \t\r\n\n" NEW "\r\n", 2, NULL},
      {longest, 1, NULL},
      {"", 0, "holds no token"},
      {"\n \n", 0, "holds no token"},
      {"short\n", 0, "line 1 has 5 characters; a token has 16 to 256"},
      {OLD "\nshort", 0, "line 2 has 5 characters"},
      {too_long, 0, "line 1 has 257 characters"},
      {"with a blank inside", 0, "visible ASCII"},
      {"not-ascii-\xc3\xa4-not-ascii", 0, "visible ASCII"},
      {OLD "\n" NEW "\n" OLD, 0, "line 3: there may be 2 tokens"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    struct tokens tokens;
    struct error error = {""};
    enum status status = tokens_parse(&tokens, cases[i].text, strlen(cases[i].text), &error);
    assert_int_equal(status, cases[i].words ? STATUS_INVALID : STATUS_OK);
    if (cases[i].words && !strstr(error.text, cases[i].words)) fail_msg("%zu: %s", i, error.text);
    if (!cases[i].words) assert_int_equal(tokens.count, cases[i].count);
    assert_null(strstr(error.text, "old-old"));
  }
}

static void headers(void **state) {
  (void)state;
  static const struct {
    const char *header;
    bool accepted;
  } cases[] = {
      {"Bearer " OLD, true},
      {"bearer " NEW, true},
      {"Bearer " OLD "x", false},
      {"Bearer old-old-old-old", false},
      {"Bearer ", false},
      {"Bearer", false},
      {"", false},
      {OLD, false},
      {"Basic " OLD, false},
      {"Bearer  " OLD, false},
      {"Bearer Old-old-old-old-", false},
  };
  struct tokens tokens;
  assert_int_equal(tokens_parse(&tokens, OLD "\n" NEW, strlen(OLD "\n" NEW), NULL), STATUS_OK);
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    const char *header = cases[i].header;
    if (tokens_accept(&tokens, header, strlen(header)) != cases[i].accepted)
      fail_msg("'%s'", header);
  }
  char longer[7 + TOKEN_MAX_BYTES + 1];
  memset(longer, 0, sizeof(longer));
  memcpy(longer, "Bearer " OLD, strlen("Bearer " OLD));
  assert_false(tokens_accept(&tokens, longer, sizeof(longer)));
  assert_false(tokens_accept(&tokens, longer, sizeof(longer) - 1)); /* zeros are no end */
}

static void a_rotation(void **state) {
  (void)state;
  struct token_file *file;
  char header[TOKEN_HEADER_BYTES];
  write_file(OLD "\n", 0600);
  assert_int_equal(token_file_open(&file, "--token_file", path, NULL), STATUS_OK);
  assert_true(accepts(file, "Bearer " OLD));
  assert_false(accepts(file, "Bearer " NEW));
  write_file(OLD "\n" NEW "\n", 0600);
  assert_true(accepts(file, "Bearer " OLD));
  assert_true(accepts(file, "Bearer " NEW));
  token_file_header(file, header);
  assert_string_equal(header, "Bearer " OLD);
  write_file(NEW "\n", 0600);
  token_file_header(file, header);
  assert_string_equal(header, "Bearer " NEW);
  assert_false(accepts(file, "Bearer " OLD));
  /* What cannot be read changes nothing. */
  write_file("short\n", 0600);
  assert_true(accepts(file, "Bearer " NEW));
  write_file(OLD "\n", 0644);
  assert_false(accepts(file, "Bearer " OLD));
  assert_int_equal(unlink(path), 0);
  assert_true(accepts(file, "Bearer " NEW));
  write_file(OLD "\n", 0600);
  assert_false(accepts(file, "Bearer " NEW));
  assert_true(accepts(file, "Bearer " OLD));
  token_file_close(file);
}

static void refusal(const char *words) {
  struct token_file *file;
  struct error error = {""};
  assert_int_equal(token_file_open(&file, "--token_file", path, &error), STATUS_INVALID);
  assert_null(file);
  if (!strstr(error.text, words) || !strstr(error.text, "--token_file="))
    fail_msg("%s", error.text);
}

static void files_that_are_refused(void **state) {
  (void)state;
  static const mode_t modes[] = {0644, 0604, 0602, 0660, 0620};
  for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
    write_file(OLD "\n", modes[i]);
    refusal("others may read this secret");
  }
  write_file("short\n", 0600);
  refusal("line 1 has 5 characters");
  assert_int_equal(unlink(path), 0);
  refusal("No such file");
  assert_int_equal(mkfifo(path, 0600), 0);
  refusal("not a regular file");
  assert_int_equal(unlink(path) | mkdir(path, 0700), 0);
  refusal("not a regular file");
  assert_int_equal(rmdir(path), 0);
  write_file("", 0600);
  assert_int_equal(truncate(path, 5000), 0);
  refusal("more than 4096");
  token_file_close(NULL);
}

int main(void) {
  log_init("test", LOG_ERROR);
  snprintf(path, sizeof(path), "/tmp/acorn-token-%d", (int)getpid());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts),
      cmocka_unit_test(headers),
      cmocka_unit_test(a_rotation),
      cmocka_unit_test(files_that_are_refused),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(path);
  return failed;
}
