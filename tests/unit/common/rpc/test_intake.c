/* What a connection may pile up, with real sockets and no gRPC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/rpc/intake.h"

enum { ROOM = 256, LIMIT = 1 << 20, PIECE = 256 << 10 };

struct pair {
  int near, far;
};

static struct pair connect_pair(void) {
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof(place);
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct pair pair = {.far = socket(AF_INET, SOCK_STREAM, 0)};
  assert_int_equal(bind(listener, (struct sockaddr *)&place, bytes), 0);
  assert_int_equal(listen(listener, 1), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&place, &bytes), 0);
  assert_int_equal(connect(pair.far, (struct sockaddr *)&place, bytes), 0);
  pair.near = accept(listener, NULL, NULL);
  assert_in_range(pair.near, 0, ROOM - 1);
  close(listener);
  return pair;
}

/* The far end sends a piece of so many bytes, the near one reads it. False: the connection is
 * closed. */
static bool cross_bytes(const struct pair *pair, size_t bytes) {
  static uint8_t piece[PIECE];
  for (size_t sent = 0, received = 0; received < bytes;) {
    size_t now = bytes - sent < 65536 ? bytes - sent : 65536;
    if (now > 0) {
      ssize_t n = send(pair->far, piece, now, MSG_NOSIGNAL);
      if (n < 0) return false;
      sent += (size_t)n;
    }
    ssize_t n = recv(pair->near, piece, sizeof(piece), 0);
    if (n <= 0) return false;
    received += (size_t)n;
  }
  return true;
}

static bool cross(const struct pair *pair) {
  return cross_bytes(pair, PIECE);
}

static void a_message_that_does_not_end_is_cut_off(void **state) {
  (void)state;
  struct intake *intake = intake_create(ROOM, LIMIT);
  struct pair bad = connect_pair(), good = connect_pair();
  intake_open(intake, bad.near);
  intake_open(intake, good.near);
  int bad_pieces = 0, good_pieces = 0;
  for (int i = 0; i < 40; i++) {
    bad_pieces += cross(&bad);
    if (cross(&good)) {
      good_pieces++;
      intake_credit(intake, good.near, PIECE); /* its message was whole */
    }
    intake_check(intake);
  }
  assert_int_equal(good_pieces, 40);
  assert_in_range(bad_pieces, LIMIT / PIECE, 12); /* the limit, and 1 MB above it */
  close(bad.near), close(bad.far), close(good.near), close(good.far);
  intake_destroy(intake);
}

/* At 80 KB/s, 16 KB from one look to the next; and at 500 bytes a second. */
static void a_message_that_trickles_in_without_an_end_is_cut_off(void **state) {
  (void)state;
  static const int bytes[] = {16 << 10, 100};
  for (int i = 0; i < 2; i++) {
    struct intake *intake = intake_create(ROOM, LIMIT);
    struct pair pair = connect_pair();
    intake_open(intake, pair.near);
    int looks = 0, most = 3 * LIMIT / bytes[i];
    for (; looks < most && cross_bytes(&pair, (size_t)bytes[i]); looks++) intake_check(intake);
    assert_in_range(looks, LIMIT / bytes[i], most - 1);
    close(pair.near), close(pair.far);
    intake_destroy(intake);
  }
}

/* A week of keepalive: a ping, and the answer to one, every 10 s. */
static void an_idle_connection_stays(void **state) {
  (void)state;
  enum { PINGS = 7 * 24 * 3600 / 10, LOOKS = 10000 / INTAKE_CHECK_MS };
  struct intake *intake = intake_create(ROOM, 1);
  struct pair pair = connect_pair();
  intake_open(intake, pair.near);
  for (int i = 0; i < PINGS; i++) {
    assert_true(cross_bytes(&pair, 2 * 17));
    for (int k = 0; k < LOOKS; k++) intake_check(intake);
  }
  assert_true(cross_bytes(&pair, 1));
  close(pair.near), close(pair.far);
  intake_destroy(intake);
}

/* gRPC closes a connection and something else gets its number. */
static void another_file_with_the_number_is_left_alone(void **state) {
  (void)state;
  struct intake *intake = intake_create(ROOM, LIMIT);
  struct pair pair = connect_pair();
  intake_open(intake, pair.near);
  assert_true(cross(&pair));
  intake_check(intake);
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(dup2(ends[1], pair.near), pair.near);
  intake_check(intake);
  assert_int_equal(write(pair.near, "x", 1), 1);
  close(ends[0]), close(ends[1]), close(pair.near), close(pair.far);
  intake_credit(intake, -1, 100);
  intake_credit(intake, ROOM, 100);
  intake_destroy(intake);
}

static void peers_have_names(void **state) {
  (void)state;
  struct pair pair = connect_pair();
  char text[INTAKE_PEER_BYTES];
  intake_peer(pair.near, text);
  assert_int_equal(strncmp(text, "127.0.0.1:", 10), 0);
  int sockets[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  intake_peer(sockets[0], text);
  assert_string_equal(text, "this machine");
  intake_peer(-1, text);
  assert_string_equal(text, "this machine");
  close(sockets[0]), close(sockets[1]), close(pair.near), close(pair.far);
}

int main(void) {
  log_init("test", LOG_ERROR);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_that_does_not_end_is_cut_off),
      cmocka_unit_test(a_message_that_trickles_in_without_an_end_is_cut_off),
      cmocka_unit_test(an_idle_connection_stays),
      cmocka_unit_test(another_file_with_the_number_is_left_alone),
      cmocka_unit_test(peers_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
