#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/cluster/host_port.h"
#include "tests/unit/support/bare_resolver.h"

static void test_valid(void **state) {
  (void)state;
  static const struct {
    const char *address, *bind;
  } rows[] = {
      {"localhost:1", "0.0.0.0:1"},        {"machine-a.example.com:2222", "0.0.0.0:2222"},
      {"10.0.0.7:65535", "0.0.0.0:65535"}, {"pod_0.svc:80", "0.0.0.0:80"},
      {"[::1]:2222", "[::]:2222"},         {"[fe80::1%eth0]:2222", "[::]:2222"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct error error = {""};
    assert_int_equal(host_port_check(rows[i].address, &error), STATUS_OK);
    char bind[64];
    host_port_bind_all(bind, sizeof bind, rows[i].address);
    assert_string_equal(bind, rows[i].bind);
  }
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *address, *why;
  } rows[] = {
      {"", "has no port"},
      {"machine-a", "has no port"},
      {"[::1]", "has no port"},
      {"a:", "not in 1..65535"},
      {"a:0", "not in 1..65535"},
      {"a:022", "not in 1..65535"},
      {"a:65536", "not in 1..65535"},
      {"a:-1", "not in 1..65535"},
      {"a:80 ", "not in 1..65535"},
      {"a:http", "not in 1..65535"},
      {":80", "has no host"},
      {"::1:80", "in brackets"},
      {"a b:80", "a character that no host name has"},
      {"grpc://a:80", "in brackets"},
      {"a/b:80", "a character that no host name has"},
      {"\x1b[2J:80", "a character that no host name has"},
      {"[]:80", "a character that no host name has"},
      {"[a]:80", "a character that no host name has"},
      {"[::1:80", "a character that no host name has"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct error error = {""};
    assert_int_equal(host_port_check(rows[i].address, &error), STATUS_INVALID);
    if (!strstr(error.text, rows[i].why)) fail_msg("'%s': %s", rows[i].address, error.text);
  }
}

static void test_the_longest_host(void **state) {
  (void)state;
  char address[300];
  struct error error = {""};
  memset(address, 'a', sizeof address);
  strcpy(address + 253, ":80");
  assert_int_equal(host_port_check(address, &error), STATUS_OK);
  memset(address, 'a', sizeof address);
  strcpy(address + 254, ":80");
  assert_int_equal(host_port_check(address, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "longer than 253"));
}

static void test_split(void **state) {
  (void)state;
  static const struct {
    const char *address, *host, *port; // host NULL: refused
  } cases[] = {
      {"127.0.0.1:8686", "127.0.0.1", "8686"},
      {"[::1]:86", "::1", "86"},
      {"name:x", "name", "x"},
      {":8686", "", "8686"},
      {":", "", ""},
      {"name", NULL, NULL},
      {"::1:86", NULL, NULL},
      {"", NULL, NULL},
  };
  char host[HOST_PORT_HOST_BYTES], longest[HOST_PORT_HOST_BYTES + 2];
  const char *port;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_int_equal(host_port_split(host, &port, cases[i].address), cases[i].host != NULL);
    if (!cases[i].host) continue;
    assert_string_equal(host, cases[i].host);
    assert_string_equal(port, cases[i].port);
  }
  memset(longest, 'x', sizeof(longest));
  strcpy(longest + HOST_PORT_HOST_BYTES - 1, ":1");
  assert_true(host_port_split(host, &port, longest));
  char too_long[HOST_PORT_HOST_BYTES + 3];
  snprintf(too_long, sizeof(too_long), "x%s", longest);
  assert_false(host_port_split(host, &port, too_long));
}

static void test_node(void **state) {
  (void)state;
  static const char *const loopback[] = {"localhost", "LOCALHOST", ""}, *const others[] = {
                                                                            "local",
                                                                            "localhost.example",
                                                                            "::1", "127.0.0.1"};
  for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++)
    assert_null(host_port_node(loopback[i]));
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    assert_ptr_equal(host_port_node(others[i]), others[i]);
}

static void test_find(void **state) {
  (void)state;
  static const struct {
    const char *address;
    bool found;
  } cases[] = {{"127.0.0.1:8686", true}, {"[::1]:8686", true},     {"localhost:8686", true},
               {":8686", true},          {"no..such:8686", false}, {"[no..such]:8686", false},
               {"nonsense", false}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    struct addrinfo *list;
    bool found = host_port_find(&list, cases[i].address) == 0;
    assert_int_equal(found, cases[i].found);
    if (found) freeaddrinfo(list);
  }
}

static void test_path(void **state) {
  (void)state;
  assert_string_equal(host_port_path("unix:/a:1"), "/a:1");
  assert_string_equal(host_port_path("unix:"), "");
  assert_null(host_port_path("unix"));
  assert_null(host_port_path("a.unix:1"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_valid),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_the_longest_host),
      cmocka_unit_test(test_split),
      cmocka_unit_test(test_node),
      cmocka_unit_test(test_find),
      cmocka_unit_test(test_path),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
