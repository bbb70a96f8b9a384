#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "common/base/status.h"

static void test_fail_writes_and_returns(void **state) {
  (void)state;
  struct error error = {"before"};
  assert_int_equal(status_fail(&error, STATUS_IO, "--port: %d", 7), STATUS_IO);
  assert_string_equal(error.text, "--port: 7");
  assert_int_equal(status_fail(NULL, STATUS_INVALID, "%s", "nobody listens"), STATUS_INVALID);
}

static void test_a_sentence_may_quote_the_one_before(void **state) {
  (void)state;
  struct error error = {"the disk is full"};
  assert_int_equal(status_fail(&error, STATUS_IO, "checkpoint: %s", error.text), STATUS_IO);
  assert_string_equal(error.text, "checkpoint: the disk is full");
}

static void test_a_long_sentence_is_cut(void **state) {
  (void)state;
  struct error error;
  assert_int_equal(status_fail(&error, STATUS_IO, "%3000d", 1), STATUS_IO);
  assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fail_writes_and_returns),
      cmocka_unit_test(test_a_sentence_may_quote_the_one_before),
      cmocka_unit_test(test_a_long_sentence_is_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
