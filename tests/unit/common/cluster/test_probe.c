#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cluster/probe.h"

static void a_port_accepts_while_somebody_listens(void **state) {
  (void)state;
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof(name);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&name, bytes), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &bytes), 0);
  static const char *const hosts[] = {"127.0.0.1", "localhost", "0.0.0.0", ""};
  for (int listens = 0; listens < 2; listens++) {
    if (listens) assert_int_equal(listen(fd, 16), 0);
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
      char address[64];
      snprintf(address, sizeof(address), "%s:%d", hosts[i], ntohs(name.sin_port));
      assert_int_equal(probe_accepts(address), listens);
    }
  }
  close(fd);
}

// One that waits for an answer, as a mistyped address does behind a firewall: nothing comes back.
static void what_does_not_answer_does_not_accept(void **state) {
  (void)state;
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof(name);
  int fd = socket(AF_INET, SOCK_STREAM, 0), waiting;
  char address[64];
  assert_int_equal(bind(fd, (struct sockaddr *)&name, bytes), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &bytes), 0);
  assert_int_equal(listen(fd, 0), 0);
  snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(name.sin_port));
  waiting = probe_connect(address, 0); // it fills the queue: no further one is answered
  assert_true(waiting >= 0);
  alarm(60);
  assert_false(probe_accepts(address));
  alarm(0);
  close(waiting);
  close(fd);
}

static void a_socket_file_accepts_while_somebody_listens(void **state) {
  (void)state;
  char folder[] = "/tmp/probe-XXXXXX", address[128];
  assert_non_null(mkdtemp(folder));
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  snprintf(name.sun_path, sizeof(name.sun_path), "%s/socket", folder);
  snprintf(address, sizeof(address), "unix:%s", name.sun_path);
  assert_false(probe_accepts(address));
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
  assert_false(probe_accepts(address));
  assert_int_equal(listen(fd, 16), 0);
  assert_true(probe_accepts(address));
  close(fd);
  // The file is still there, and nobody behind it.
  assert_false(probe_accepts(address));
  unlink(name.sun_path);
  rmdir(folder);
}

static void what_is_no_address_does_not_accept(void **state) {
  (void)state;
  static const char *const addresses[] = {"",
                                          "nowhere",
                                          ":",
                                          "[::1]",
                                          "127.0.0.1:",
                                          "unix:",
                                          "127.0.0.1:99999999999999999999",
                                          "no such host:1"};
  for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
    assert_false(probe_accepts(addresses[i]));
  char longest[300] = "unix:/";
  memset(longest + 6, 'x', sizeof(longest) - 7);
  assert_false(probe_accepts(longest));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_port_accepts_while_somebody_listens),
      cmocka_unit_test(what_does_not_answer_does_not_accept),
      cmocka_unit_test(a_socket_file_accepts_while_somebody_listens),
      cmocka_unit_test(what_is_no_address_does_not_accept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
