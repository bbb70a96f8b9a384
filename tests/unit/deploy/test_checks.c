#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/checks.h"

static void swapped_words_are_named(void **state) {
  (void)state;
  static const struct {
    const char *env, *agent;
    enum status status;
  } cases[] = {
      {"cartpole", "vtrace", STATUS_OK},     {"vtrace", "cartpole", STATUS_INVALID},
      {"random", "catch", STATUS_INVALID},   {"vtrace", "vtrace", STATUS_OK},
      {"cartpole", "cartpole", STATUS_OK},   {"vtrac", "cartpole", STATUS_OK},
      {"vtrace|random", "tmaze", STATUS_OK}, {"", "tmaze", STATUS_OK},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    static struct arguments words;
    struct error error = {""};
    words.env = cases[i].env, words.agent = cases[i].agent, words.num_actors = 3;
    assert_int_equal(checks_order(&words, &error), cases[i].status);
    if (i == 1) assert_non_null(strstr(error.text, "./run_local.sh cartpole vtrace 3"));
  }
}

static void a_port_must_be_named(void **state) {
  (void)state;
  static const struct {
    const char *listen;
    enum status status;
  } cases[] = {
      {"127.0.0.1:8686", STATUS_OK},
      {"127.0.0.1:0", STATUS_INVALID},
      {"[::1]:0", STATUS_INVALID},
      {"0.0.0.0:000", STATUS_INVALID},
      {"127.0.0.1:10", STATUS_OK},
      {"127.0.0.1:08", STATUS_OK},
      {"unix:/tmp/acorn:0", STATUS_OK},
      {"nonsense", STATUS_OK}, // the learner names these
      {"host:", STATUS_OK},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    struct error error = {""};
    assert_int_equal(checks_listen(cases[i].listen, &error), cases[i].status);
    if (cases[i].status != STATUS_OK) assert_non_null(strstr(error.text, cases[i].listen));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(swapped_words_are_named),
      cmocka_unit_test(a_port_must_be_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
