/* What is read from a file that is watched is seen once, by recvmsg alone; and gRPC reads by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/rpc/tap.h"

static char seen[100];
static bool passes = true;

static bool see(struct tap *tap, const uint8_t *data, size_t bytes) {
  (void)tap;
  strncat(seen, (const char *)data, bytes);
  return passes;
}

/* Reads in two pieces; returns what recvmsg does. */
static ssize_t receive(int fd, char text[10], int flags) {
  memset(text, 0, 10);
  struct iovec pieces[2] = {{text, 2}, {text + 2, 7}};
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
  return recvmsg(fd, &message, flags);
}

static void what_is_read_is_seen(void **state) {
  (void)state;
  int ends[2];
  char text[10];
  struct tap tap = {see}, other = {see};
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  assert_int_equal(write(ends[1], "a", 1), 1);
  assert_int_equal(receive(ends[0], text, 0), 1);
  assert_string_equal(seen, "");

  tap_begin(ends[0], &tap);
  assert_int_equal(write(ends[1], "bcdef", 5), 5);
  assert_int_equal(receive(ends[0], text, MSG_PEEK), 5);
  assert_string_equal(seen, "");
  assert_int_equal(receive(ends[0], text, 0), 5);
  assert_string_equal(text, "bcdef");
  assert_string_equal(seen, "bcdef");
  assert_int_equal(receive(ends[0], text, MSG_DONTWAIT), -1);
  assert_int_equal(write(ends[0], "x", 1), 1);
  assert_int_equal(receive(ends[1], text, 0), 1); /* nobody watches this end */
  assert_string_equal(seen, "bcdef");

  tap_end(ends[0], &other); /* a stranger's end */
  assert_int_equal(write(ends[1], "g", 1), 1);
  assert_int_equal(receive(ends[0], text, 0), 1);
  assert_string_equal(seen, "bcdefg");
  passes = false; /* what may not pass is the end of the file */
  assert_int_equal(write(ends[1], "xyz", 3), 3);
  assert_int_equal(receive(ends[0], text, 0), 0);
  assert_string_equal(seen, "bcdefgxy");

  tap_end(ends[0], &tap);
  assert_int_equal(write(ends[1], "h", 1), 1);
  assert_int_equal(receive(ends[0], text, 0), 1);
  assert_string_equal(text, "h");
  assert_string_equal(seen, "bcdefgxy");
  close(ends[0]), close(ends[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_read_is_seen)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
