#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "actor/resolve.h"
#include "tests/unit/support/bare_resolver.h"

static void says_which_host_cannot_be_found(void **state) {
  (void)state;
  static const struct {
    const char *address, *words; // of the error, or NULL
  } cases[] = {
      {"127.0.0.1:8686", NULL},
      {"[::1]:8686", NULL},
      {"localhost:8686", NULL},
      {"unix:/tmp/acorn", NULL},
      {"no..such:8686", "the host 'no..such' cannot be found: "},
      {"[no..such]:8686", "the host 'no..such' cannot be found: "},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    struct error error = {""};
    enum status status = resolve_check(cases[i].address, &error);
    assert_int_equal(status, cases[i].words ? STATUS_UNAVAILABLE : STATUS_OK);
    if (cases[i].words) assert_non_null(strstr(error.text, cases[i].words));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(says_which_host_cannot_be_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
