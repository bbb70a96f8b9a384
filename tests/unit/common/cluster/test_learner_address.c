#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/cluster/learner_address.h"

static void each_learner_has_its_own(void **state) {
  (void)state;
  static const struct {
    const char *address;
    int rank;
    const char *expected;
  } table[] = {{"unix:/a:b/socket", 0, "unix:/a:b/socket"},
               {"unix:/a/socket", 2, "unix:/a/socket-2"},
               {"host:8686", 0, "host:8686"},
               {"host:8686", 3, "host:8689"},
               {"[::1]:80", 1, "[::1]:81"},
               {"host", 1, "host"}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    char address[PATH_MAX];
    learner_address(address, table[i].address, table[i].rank);
    assert_string_equal(address, table[i].expected);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_learner_has_its_own)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
