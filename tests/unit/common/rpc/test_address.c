/* Where a server can listen, and why it cannot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/rpc/address.h"
#include "rpc_fixture.h"
#include "tests/unit/support/bare_resolver.h"

static enum status try_address(const char *address, struct error *error) {
  struct rpc_method method = {.path = "/x/Y"};
  struct rpc_server_config config = {.address = address,
                                     .num_queues = 1,
                                     .methods = &method,
                                     .num_methods = 1,
                                     .max_message_bytes = 1000};
  struct rpc_server *server;
  enum status status = rpc_server_create(&server, &config, error);
  if (status != STATUS_OK) return status;
  rpc_server_shutdown(server);
  while (rpc_server_poll(server, 0, clock_now_us() + 1000000) >= 0)
    ;
  rpc_server_destroy(server);
  return STATUS_OK;
}

static void bad_addresses_are_explained(void **state) {
  (void)state;
  static const struct {
    const char *address, *fault;
  } cases[] = {
      {"", "is not HOST:PORT"},
      {"8686", "is not HOST:PORT"},
      {":8686", "is not HOST:PORT"},
      {"127.0.0.1", "is not HOST:PORT"},
      {"127.0.0.1:", "is not HOST:PORT"},
      {"127.0.0.1:http", "is not HOST:PORT"},
      {"127.0.0.1:65536", "is not HOST:PORT"},
      {"127.0.0.1:00", "is not HOST:PORT"},
      {"::1:8686", "is not HOST:PORT"},
      {"no.such.host.invalid:8686", "the host is unknown"},
      {"192.0.2.1:8686", "cannot listen there: "},
      {"unix:", "the path has 0 bytes"},
      {"unix:/no/such/folder/x.sock", "does the folder exist"},
      {"unix:/tmp", "there is a file that is no socket"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct error error = {{0}};
    enum status status = try_address(cases[i].address, &error);
    if (status != STATUS_INVALID || !strstr(error.text, cases[i].fault))
      fail_msg("%s: %d \"%s\"", cases[i].address, status, error.text);
  }
  char longer[200] = "unix:/tmp/";
  memset(longer + 10, 'x', 120);
  struct error error;
  assert_int_equal(try_address(longer, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "the path has 125 bytes"));
}

static void good_addresses_work(void **state) {
  (void)state;
  struct error error;
  assert_int_equal(try_address("0.0.0.0:0", &error), STATUS_OK);
  assert_int_equal(try_address("localhost:0", &error), STATUS_OK);
  assert_true(address_is_local("localhost:0") && address_is_local("127.0.0.1:1"));
  assert_true(address_is_local("[::1]:1") && address_is_local("unix:/tmp/a"));
  assert_false(address_is_local("10.0.0.1:1") || address_is_local("learner-0:1"));
}

/* A call to that place, of which the socket has the first byte; -1: it is refused, or there is no
 * such family here. */
static int call(const void *place, socklen_t bytes, sa_family_t family) {
  int fd = socket(family, SOCK_STREAM, 0);
  if (fd >= 0 && connect(fd, place, bytes) == 0 && write(fd, "x", 1) == 1) return fd;
  int reason = errno;
  close(fd);
  errno = reason;
  return -1;
}

/* "0.0.0.0" is taken by callers of both families, as by gRPC; an IPv4 one is named as such. */
static void every_interface_is_of_both_families(void **state) {
  (void)state;
  struct address_sockets sockets;
  struct error error;
  char text[ADDRESS_NUMERIC_BYTES];
  assert_int_equal(address_listen(&sockets, "0.0.0.0:0", &error), STATUS_OK);
  struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)sockets.port)};
  struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = ipv4.sin_port};
  ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ipv6.sin6_addr = in6addr_loopback;
  int caller = call(&ipv4, sizeof(ipv4), AF_INET), taken = -1;
  assert_true(caller >= 0);
  while ((taken = accept(sockets.fd[0], NULL, NULL)) < 0) usleep(1000); /* it does not block */
  assert_true(address_of_peer(text, taken));
  assert_int_equal(strncmp(text, "127.0.0.1:", 10), 0);
  close(taken);
  close(caller);
  caller = call(&ipv6, sizeof(ipv6), AF_INET6);
  if (caller < 0 && errno == ECONNREFUSED) fail_msg("[::1]:%d is refused", sockets.port);
  if (caller >= 0) {
    assert_true(address_of_peer(text, caller));
    assert_int_equal(strncmp(text, "[::1]:", 6), 0);
    close(caller);
  }
  address_close(&sockets);
}

static void a_port_serves_one_server(void **state) {
  (void)state;
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, 1000);
  struct error error;
  assert_int_equal(try_address(f.address, &error), STATUS_EXISTS);
  assert_non_null(strstr(error.text, "the port is in use"));
  fixture_destroy(&f);
  assert_int_equal(try_address(f.address, &error), STATUS_OK);
}

static void temporary_socket(char address[128]) {
  snprintf(address, 128, "unix:/tmp/rpc_test_%d.sock", (int)getpid());
}

static void a_socket_file_serves_one_server(void **state) {
  (void)state;
  char address[128];
  temporary_socket(address);
  struct fixture f;
  fixture_create(&f, address, 1, 1000);
  assert_int_equal(rpc_server_port(f.server), 0);
  struct error error;
  assert_int_equal(try_address(address, &error), STATUS_EXISTS);
  assert_non_null(strstr(error.text, "another program listens there"));
  struct stat info;
  assert_int_equal(stat(address + 5, &info), 0);
  fixture_destroy(&f);
}

static void a_stale_socket_file_is_removed(void **state) {
  (void)state;
  char address[128];
  temporary_socket(address);
  struct sockaddr_un place = {.sun_family = AF_UNIX};
  strcpy(place.sun_path, address + 5);
  unlink(place.sun_path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&place, sizeof(place)), 0);
  close(fd);
  struct error error;
  assert_int_equal(try_address(address, &error), STATUS_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_addresses_are_explained),
      cmocka_unit_test(good_addresses_work),
      cmocka_unit_test(every_interface_is_of_both_families),
      cmocka_unit_test(a_port_serves_one_server),
      cmocka_unit_test(a_socket_file_serves_one_server),
      cmocka_unit_test(a_stale_socket_file_is_removed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
