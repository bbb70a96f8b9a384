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

#include "common/base/log.h"
#include "common/rpc/intake.h"

enum { ROOM = 256, LIMIT = 1 << 20, PIECE = 256 << 10, CALLS = 10 };

/* A connection on this machine: the far end sends, the near one reads as gRPC would. */
struct pair {
  int near, far;
  uint32_t stream; /* of the newest call */
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

static void close_pair(const struct pair *pair) {
  close(pair->near);
  close(pair->far);
}

/* The far end sends so many bytes, the near one reads them. False: the connection is closed. */
static bool cross(const struct pair *pair, const void *data, size_t bytes) {
  static uint8_t read_bytes[PIECE];
  for (size_t sent = 0, received = 0; received < bytes;) {
    size_t now = bytes - sent < 65536 ? bytes - sent : 65536;
    if (now > 0) {
      ssize_t n = send(pair->far, (const uint8_t *)data + sent, now, MSG_NOSIGNAL);
      if (n < 0) return false;
      sent += (size_t)n;
    }
    struct iovec pieces[2] = {{read_bytes, 1000}, {read_bytes + 1000, PIECE - 1000}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    ssize_t n = recvmsg(pair->near, &message, 0);
    if (n <= 0) return false;
    received += (size_t)n;
  }
  return true;
}

enum { DATA = 0, HEADERS = 1, PING = 6 };

/* One frame, with zeros in it. */
static bool cross_frame(const struct pair *pair, int kind, uint32_t stream, size_t bytes) {
  static uint8_t frame[9 + PIECE];
  const uint8_t head[9] = {
      (uint8_t)(bytes >> 16),  (uint8_t)(bytes >> 8),   (uint8_t)bytes,         (uint8_t)kind,  0,
      (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
  memcpy(frame, head, sizeof(head));
  return cross(pair, frame, 9 + bytes);
}

static struct pair open_pair(struct intake *intake) {
  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  struct pair pair = connect_pair();
  intake_open(intake, pair.near);
  assert_true(cross(&pair, preface, sizeof(preface) - 1));
  return pair;
}

/* The head of a call, which is accepted. */
static struct intake_call call_on(struct intake *intake, struct pair *pair) {
  pair->stream += 1 + pair->stream % 2 + (pair->stream > 0);
  assert_true(cross_frame(pair, HEADERS, pair->stream, 6));
  return intake_call_begin(intake, pair->near);
}

/* So many bytes on the newest call. */
static bool send_data(const struct pair *pair, size_t bytes) {
  return cross_frame(pair, DATA, pair->stream, bytes);
}

/* ---- bytes */

static void a_message_that_does_not_end_is_cut_off(void **state) {
  (void)state;
  struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
  struct pair bad = open_pair(intake), good = open_pair(intake);
  struct intake_call call = call_on(intake, &good);
  call_on(intake, &bad);
  int bad_pieces = 0, good_pieces = 0;
  for (int i = 0; i < 40; i++) {
    bad_pieces += send_data(&bad, PIECE);
    if (send_data(&good, PIECE)) {
      good_pieces++;
      intake_message(intake, call, PIECE - 5); /* its message was whole */
    }
    intake_check(intake);
  }
  assert_int_equal(good_pieces, 40);
  assert_in_range(bad_pieces, LIMIT / PIECE, 12); /* the limit, and 1 MB above it */
  close_pair(&bad), close_pair(&good);
  intake_destroy(intake);
}

/* At 80 KB/s, 16 KB from one look to the next; and at 500 bytes a second. */
static void a_message_that_trickles_in_without_an_end_is_cut_off(void **state) {
  (void)state;
  static const int bytes[] = {16 << 10, 100};
  for (int i = 0; i < 2; i++) {
    struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
    struct pair pair = open_pair(intake);
    call_on(intake, &pair);
    int looks = 0, most = 3 * LIMIT / bytes[i];
    for (; looks < most && send_data(&pair, (size_t)bytes[i]); looks++) intake_check(intake);
    assert_in_range(looks, LIMIT / bytes[i], most - 1);
    close_pair(&pair);
    intake_destroy(intake);
  }
}

/* Whatever else comes between the pieces, and is answered, earns nothing for them. */
static void no_mixture_gets_a_message_past_the_limit(void **state) {
  (void)state;
  enum { CALL, WHOLE_MESSAGE, PINGS, MIXTURES };
  for (int mixture = 0; mixture < MIXTURES; mixture++) {
    struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
    struct pair pair = open_pair(intake);
    struct intake_call first = call_on(intake, &pair);
    int pieces = 0;
    for (; pieces < 3 * LIMIT / 480 && send_data(&pair, 480); pieces++) {
      if (mixture == CALL) intake_call_end(intake, call_on(intake, &pair));
      if (mixture == PINGS) cross_frame(&pair, PING, 0, 8);
      if (mixture == WHOLE_MESSAGE && send_data(&pair, 30)) intake_message(intake, first, 25);
      intake_check(intake);
    }
    assert_in_range(pieces, LIMIT / 480, 5 * LIMIT / 480 / 2);
    close_pair(&pair);
    intake_destroy(intake);
  }
}

/* Header blocks that gRPC would collect before it refuses them. */
static void a_header_block_without_an_end_is_cut_off(void **state) {
  (void)state;
  struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
  struct pair pair = open_pair(intake);
  int pieces = 0;
  for (; pieces < 40 && cross_frame(&pair, HEADERS, 1, PIECE); pieces++) intake_check(intake);
  assert_in_range(pieces, LIMIT / PIECE, 12);
  close_pair(&pair);
  intake_destroy(intake);
}

/* A month of keepalive, window updates and calls with long metadata, beside a stream that plays. */
static void what_an_honest_peer_sends_is_not_held_against_it(void **state) {
  (void)state;
  enum { ROUNDS = 30000 };
  struct intake *intake = intake_create(ROOM, 1000, CALLS);
  struct pair pair = open_pair(intake);
  call_on(intake, &pair);
  for (int i = 0; i < ROUNDS; i++) {
    bool open = cross_frame(&pair, PING, 0, 8) && cross_frame(&pair, 8, 0, 4) &&
                cross_frame(&pair, HEADERS, pair.stream += 2, 8000);
    assert_true(open);
    struct intake_call call = intake_call_begin(intake, pair.near);
    assert_true(send_data(&pair, 5));
    intake_message(intake, call, 0);
    intake_call_end(intake, call);
    if (i % 100 == 0) intake_check(intake);
  }
  assert_true(send_data(&pair, 1));
  close_pair(&pair);
  intake_destroy(intake);
}

/* What calls that were refused had begun to send is forgotten when no call is left. */
static void a_connection_without_a_call_holds_nothing(void **state) {
  (void)state;
  struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
  struct pair pair = open_pair(intake);
  for (int i = 0; i < 40; i++) {
    struct intake_call call = call_on(intake, &pair);
    assert_true(send_data(&pair, PIECE));
    intake_call_end(intake, call);
    intake_check(intake);
  }
  close_pair(&pair);
  intake_destroy(intake);
}

/* But one that has not been accepted yet is a call. */
static void a_call_that_is_on_its_way_is_not_forgotten(void **state) {
  (void)state;
  struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
  struct pair pair = open_pair(intake);
  pair.stream = 1;
  assert_true(cross_frame(&pair, HEADERS, 1, 6));
  int pieces = 0;
  for (; pieces < 40 && send_data(&pair, PIECE); pieces++) intake_check(intake);
  assert_in_range(pieces, LIMIT / PIECE, 12);
  close_pair(&pair);
  intake_destroy(intake);
}

/* ---- calls */

static bool is_closed(const struct pair *pair) {
  char byte;
  return recv(pair->far, &byte, 1, MSG_DONTWAIT) == 0;
}

static void too_many_calls_close_the_connection(void **state) {
  (void)state;
  for (int accepted = 0; accepted < 2; accepted++) {
    struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
    struct pair pair = open_pair(intake);
    int calls = 0;
    for (bool closed = false; !closed && calls < 3 * CALLS; calls++) {
      if (accepted)
        closed = intake_close_greedy(intake, call_on(intake, &pair), 3 * CALLS);
      else
        cross_frame(&pair, HEADERS, (uint32_t)(2 * calls + 1), 6);
      intake_check(intake);
      closed = closed || is_closed(&pair);
    }
    assert_int_equal(calls, 2 * CALLS + 1);
    close_pair(&pair);
    intake_destroy(intake);
  }
}

static void calls_that_wait_for_their_peer_are_counted(void **state) {
  (void)state;
  struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
  struct pair pair = open_pair(intake);
  struct intake_call call[4];
  for (int i = 0; i < 4; i++) {
    call[i] = call_on(intake, &pair);
    intake_wait_begin(intake, call[i]);
  }
  intake_wait_end(intake, call[0]);
  assert_false(intake_close_greedy(intake, call[1], 3));
  assert_true(intake_close_greedy(intake, call[1], 2));
  assert_true(is_closed(&pair));
  close_pair(&pair);
  intake_destroy(intake);
}

/* `calls` heads of calls in one read. False: the reader has not got them. */
static bool send_burst(struct pair *pair, int calls) {
  enum { HEAD = 9, FIELDS = 6, MOST = 100 };
  static uint8_t frames[MOST * (HEAD + FIELDS)];
  assert_in_range(calls, 1, MOST);
  for (int i = 0; i < calls; i++) {
    pair->stream += pair->stream ? 2 : 1;
    uint8_t *frame = frames + i * (HEAD + FIELDS);
    memset(frame, 0, HEAD + FIELDS);
    frame[2] = FIELDS, frame[3] = HEADERS;
    frame[7] = (uint8_t)(pair->stream >> 8), frame[8] = (uint8_t)pair->stream;
  }
  return cross(pair, frames, (size_t)calls * (HEAD + FIELDS));
}

/* gRPC would make a call of each before anybody could look. */
static void a_burst_of_calls_does_not_come_in(void **state) {
  (void)state;
  struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
  struct pair good = open_pair(intake), bad = open_pair(intake);
  assert_true(send_burst(&good, 2 * CALLS));
  assert_false(send_burst(&bad, 2 * CALLS + 1));
  assert_true(is_closed(&bad));
  assert_false(is_closed(&good));
  close_pair(&good), close_pair(&bad);
  intake_destroy(intake);
}

/* 1,000 and 4 CALLS of all connections: from there on a connection may have 8 on their way. */
static void many_connections_have_few_calls_on_their_way(void **state) {
  (void)state;
  enum { MANY = 1000 / (2 * CALLS) + 2 };
  struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
  struct pair many[MANY], few = open_pair(intake), more = open_pair(intake);
  for (int i = 0; i < MANY; i++) {
    many[i] = open_pair(intake);
    assert_true(send_burst(&many[i], 2 * CALLS));
  }
  assert_true(send_burst(&few, 8));
  assert_false(send_burst(&more, 9));
  for (int i = 0; i < 4 * CALLS; i++) intake_call_begin(intake, many[i / CALLS].near);
  assert_true(send_burst(&few, 1)); /* some have come out */
  for (int i = 0; i < MANY; i++) close_pair(&many[i]);
  close_pair(&few), close_pair(&more);
  intake_destroy(intake);
}

/* Those that finish messages are in earnest, whatever they hold at the moment. */
static void of_all_the_one_that_finishes_nothing_is_cut_off(void **state) {
  (void)state;
  enum { HOLDERS = 37, PIECES = 7 }; /* 65 MB */
  struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
  struct pair good = open_pair(intake), bad[HOLDERS];
  struct intake_call call = call_on(intake, &good);
  for (int i = 0; i < HOLDERS; i++) {
    bad[i] = open_pair(intake);
    call_on(intake, &bad[i]);
    for (int k = 0; k < PIECES; k++) assert_true(send_data(&bad[i], PIECE));
    if (i < PIECES) assert_true(send_data(&good, PIECE));
    intake_message(intake, call, 100);
    intake_check(intake);
  }
  assert_false(is_closed(&good));
  int closed = 0;
  for (int i = 0; i < HOLDERS; i++) closed += is_closed(&bad[i]);
  assert_in_range(closed, 1, 3);
  assert_true(is_closed(&bad[0]));
  for (int i = 0; i < HOLDERS; i++) close_pair(&bad[i]);
  close_pair(&good);
  intake_destroy(intake);
}

/* ---- numbers that are used again */

/* gRPC closes a connection and something else gets its number. */
static void another_file_with_the_number_is_left_alone(void **state) {
  (void)state;
  struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
  struct pair pair = open_pair(intake), other = connect_pair();
  call_on(intake, &pair);
  assert_true(send_data(&pair, PIECE));
  intake_check(intake);
  assert_int_equal(dup2(other.near, pair.near), pair.near);
  for (int i = 0; i < 20; i++) {
    assert_true(cross_frame(&other, DATA, 1, PIECE));
    intake_check(intake);
  }
  close_pair(&pair), close_pair(&other);
  intake_destroy(intake);
}

/* A call that ends after its connection does not count for the next one. */
static void a_late_end_is_not_the_next_connections(void **state) {
  (void)state;
  struct intake *intake = intake_create(ROOM, LIMIT, CALLS);
  struct pair pair = open_pair(intake);
  struct intake_call late = call_on(intake, &pair);
  intake_wait_begin(intake, late);
  struct pair next = connect_pair();
  assert_int_equal(dup2(next.near, pair.near), pair.near);
  intake_open(intake, pair.near);
  struct intake_call call = intake_call_begin(intake, pair.near);
  intake_wait_begin(intake, call);
  intake_wait_end(intake, late);
  intake_call_end(intake, late);
  intake_message(intake, late, 1 << 30);
  assert_true(intake_close_greedy(intake, call, 0)); /* it still has one that waits */
  const struct intake_call unknown = intake_call_begin(intake, -1);
  intake_message(intake, unknown, 100);
  intake_message(intake, (struct intake_call){.fd = ROOM}, 100);
  intake_wait_begin(intake, unknown);
  assert_false(intake_close_greedy(intake, unknown, 0));
  intake_call_end(intake, unknown);
  close_pair(&pair), close_pair(&next);
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
  close(sockets[0]), close(sockets[1]), close_pair(&pair);
}

int main(void) {
  log_init("test", LOG_ERROR);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_that_does_not_end_is_cut_off),
      cmocka_unit_test(a_message_that_trickles_in_without_an_end_is_cut_off),
      cmocka_unit_test(no_mixture_gets_a_message_past_the_limit),
      cmocka_unit_test(a_header_block_without_an_end_is_cut_off),
      cmocka_unit_test(what_an_honest_peer_sends_is_not_held_against_it),
      cmocka_unit_test(a_connection_without_a_call_holds_nothing),
      cmocka_unit_test(a_call_that_is_on_its_way_is_not_forgotten),
      cmocka_unit_test(too_many_calls_close_the_connection),
      cmocka_unit_test(a_burst_of_calls_does_not_come_in),
      cmocka_unit_test(many_connections_have_few_calls_on_their_way),
      cmocka_unit_test(of_all_the_one_that_finishes_nothing_is_cut_off),
      cmocka_unit_test(calls_that_wait_for_their_peer_are_counted),
      cmocka_unit_test(another_file_with_the_number_is_left_alone),
      cmocka_unit_test(a_late_end_is_not_the_next_connections),
      cmocka_unit_test(peers_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
