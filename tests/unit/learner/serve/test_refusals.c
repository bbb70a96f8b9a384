/* Refusals: all are counted, few are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "learner/serve/refusals.h"

/* stderr goes to a file for a while. */
static FILE *file;
static int terminal;

static void catch_log(void) {
  file = tmpfile();
  assert_non_null(file);
  terminal = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
}

/* How many lines hold the word. */
static int release_log(const char *word, const char *other, int *others) {
  char line[512];
  int count = *others = 0;
  dup2(terminal, STDERR_FILENO);
  close(terminal);
  rewind(file);
  while (fgets(line, sizeof(line), file)) {
    count += strstr(line, word) != NULL;
    *others += strstr(line, other) != NULL;
  }
  fclose(file);
  return count;
}

static void a_flood_of_them_is_ten_lines_a_second(void **state) {
  (void)state;
  struct refusals refusals;
  int of_nan, unsaid;
  refusals_init(&refusals);
  catch_log();
  for (int i = 0; i < 1000; i++)
    refusals_note(&refusals, REFUSED_JOIN, "10.0.0.7:4711", "it is nonsense", 5000000 + i);
  refusals_note(&refusals, REFUSED_NOT_FINITE, "actor/0/0", "its reward is nan", 5500000);
  assert_int_equal(release_log("a Join of 10.0.0.7:4711 was refused: it is nonsense",
                               "a message of actor/0/0 was refused: its reward is nan", &of_nan),
                   10);
  assert_int_equal(of_nan, 1); /* one kind does not drown another */
  catch_log();
  refusals_note(&refusals, REFUSED_JOIN, "10.0.0.7:4711", "it is nonsense", 6000001);
  assert_int_equal(release_log("nonsense", "990 more refusals", &unsaid), 1);
  assert_int_equal(unsaid, 1);
  assert_int_equal(refusals.log[REFUSED_JOIN].count, 1001);
  assert_int_equal(refusals.log[REFUSED_NOT_FINITE].count, 1);
  assert_int_equal(refusals.log[REFUSED_PLAY].count, 0);
  refusals_deinit(&refusals);
}

int main(void) {
  log_init("test", LOG_WARN);
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_flood_of_them_is_ten_lines_a_second)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
