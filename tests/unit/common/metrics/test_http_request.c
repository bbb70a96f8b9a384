#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/metrics/http_request.h"

static const struct {
  const char *text;
  enum http_parse expected;
  const char *method, *path;
} rows[] = {
    {"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_WHOLE, "GET", "/metrics"},
    {"GET /metrics HTTP/1.0\n\n", HTTP_WHOLE, "GET", "/metrics"},
    {"HEAD / HTTP/1.1\r\n\r\n", HTTP_WHOLE, "HEAD", "/"},
    {"GET /metrics?a=b HTTP/1.1\r\nA:\r\nB: c\r\n\r\nrest", HTTP_WHOLE, "GET", "/metrics"},
    {"POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", HTTP_WHOLE, "POST", "/x"},
    {"", HTTP_PARTIAL, NULL, NULL},
    {"GE", HTTP_PARTIAL, NULL, NULL},
    {"GET /metrics HTTP/1.1\r", HTTP_PARTIAL, NULL, NULL},
    {"GET /metrics HTTP/1.1\r\nHost: a\r\n", HTTP_PARTIAL, NULL, NULL},
    {"get /metrics HTTP/1.1\r\n\r\n", HTTP_BAD, NULL, NULL},
    {"GET  /metrics HTTP/1.1\r\n\r\n", HTTP_BAD, NULL, NULL},
    {"GET metrics HTTP/1.1\r\n\r\n", HTTP_BAD, NULL, NULL},
    {"GET /metrics\r\n\r\n", HTTP_BAD, NULL, NULL},
    {"GET /a b HTTP/1.1\r\n\r\n", HTTP_BAD, NULL, NULL},
    {"GET /\x01 HTTP/1.1\r\n\r\n", HTTP_BAD, NULL, NULL},
    {"GET / HTTP/2.0\r\n\r\n", HTTP_BAD, NULL, NULL},
    {"GET / HTTP/1.1\r\nno colon\r\n\r\n", HTTP_BAD, NULL, NULL},
    {"GET / HTTP/1.1\r\nA: b\r\n folded: c\r\n\r\n", HTTP_BAD, NULL, NULL},
    {"GET / HTTP/1.1\r\n: empty\r\n\r\n", HTTP_BAD, NULL, NULL},
    {" / HTTP/1.1\r\n\r\n", HTTP_BAD, NULL, NULL},
    {"\n\n", HTTP_BAD, NULL, NULL},
    /* A TLS hello and the preface of HTTP/2 are not waited for. */
    {"\x16\x03\x01\x02", HTTP_BAD, NULL, NULL},
    {"PRI * HTTP/2.0\r\n", HTTP_BAD, NULL, NULL},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZ", HTTP_BAD, NULL, NULL},
};

static void test_table(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    struct http_request request;
    enum http_parse parse = http_request_parse(&request, rows[i].text, strlen(rows[i].text));
    if (parse != rows[i].expected) fail_msg("row %zu is %d", i, (int)parse);
    if (parse != HTTP_WHOLE) continue;
    assert_true(http_request_is_method(&request, rows[i].method));
    assert_true(http_request_is(&request, rows[i].path));
    assert_false(http_request_is(&request, "/metric"));
    assert_false(http_request_is_method(&request, "GETS"));
  }
}

/* However it is cut into pieces, a request is whole at its last byte and not before. */
static void test_every_cut(void **state) {
  (void)state;
  static const char text[] = "GET /metrics HTTP/1.1\r\nHost: a:1\r\nUser-Agent: b\r\n\r\n";
  struct http_request request;
  for (size_t count = 0; count < sizeof(text) - 1; count++)
    assert_int_equal(http_request_parse(&request, text, count), HTTP_PARTIAL);
  assert_int_equal(http_request_parse(&request, text, sizeof(text) - 1), HTTP_WHOLE);
}

static void test_authorization(void **state) {
  (void)state;
  static const struct {
    const char *headers, *value; /* NULL: none */
  } cases[] = {
      {"Host: a\r\n", NULL},
      {"Authorization: Bearer abc\r\n", "Bearer abc"},
      {"authorization:Bearer abc \t\r\nHost: a\r\n", "Bearer abc"},
      {"Authorization:\r\n", ""},
      {"Proxy-Authorization: Bearer abc\r\n", NULL},
      {"AuthorizationX: Bearer abc\r\n", NULL},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    char text[200];
    struct http_request request;
    snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n%s\r\n", cases[i].headers);
    assert_int_equal(http_request_parse(&request, text, strlen(text)), HTTP_WHOLE);
    assert_int_equal(request.authorization != NULL, cases[i].value != NULL);
    if (!cases[i].value) continue;
    assert_int_equal(request.authorization_bytes, strlen(cases[i].value));
    assert_memory_equal(request.authorization, cases[i].value, strlen(cases[i].value));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_every_cut),
                                     cmocka_unit_test(test_authorization)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
