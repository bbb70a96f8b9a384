/* Open calls are bounded, and those that wait for their peer too long are ended: a peer that opens
 * calls by hand beside a client that behaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "rpc_fixture.h"

enum { PATIENCE_MS = 1000 };
enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, END_STREAM = 1, END_HEADERS = 4 };

/* ---- a peer that reads no answers */

struct raw {
  int fd;
  uint32_t stream; /* of the newest call */
};

static void send_frame(const struct raw *raw, int kind, int flags, uint32_t stream,
                       const void *payload, size_t bytes) {
  uint8_t frame[512] = {0,
                        (uint8_t)(bytes >> 8),
                        (uint8_t)bytes,
                        (uint8_t)kind,
                        (uint8_t)flags,
                        (uint8_t)(stream >> 24),
                        (uint8_t)(stream >> 16),
                        (uint8_t)(stream >> 8),
                        (uint8_t)stream};
  assert_true(bytes + 9 <= sizeof(frame));
  if (bytes > 0) memcpy(frame + 9, payload, bytes);
  ssize_t sent = send(raw->fd, frame, bytes + 9, MSG_NOSIGNAL);
  (void)sent; /* the server may have hung up */
}

/* `reads`: else its streams' windows are 0, so that no message fits; a status alone would. */
static struct raw raw_connect_as(const struct fixture *f, bool reads) {
  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  static const uint8_t no_window[] = {0, 4, 0, 0, 0, 0};
  struct raw raw = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
  struct sockaddr_in place = {.sin_family = AF_INET,
                              .sin_port = htons((uint16_t)rpc_server_port(f->server))};
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(connect(raw.fd, (struct sockaddr *)&place, sizeof(place)), 0);
  assert_int_equal(send(raw.fd, preface, sizeof(preface) - 1, MSG_NOSIGNAL), 24);
  send_frame(&raw, SETTINGS, 0, 0, no_window, reads ? 0 : sizeof(no_window));
  return raw;
}

static struct raw raw_connect(const struct fixture *f) {
  return raw_connect_as(f, false);
}

static size_t add_header(uint8_t *block, size_t at, const char *name, const char *value) {
  const char *const texts[2] = {name, value};
  block[at++] = 0;
  for (int i = 0; i < 2; i++) {
    size_t length = strlen(texts[i]);
    block[at++] = (uint8_t)length;
    memcpy(block + at, texts[i], length);
    at += length;
  }
  return at;
}

static void raw_open(struct raw *raw, const char *path) {
  uint8_t block[256];
  size_t bytes = add_header(block, 0, ":method", "POST");
  bytes = add_header(block, bytes, ":scheme", "http");
  bytes = add_header(block, bytes, ":path", path);
  bytes = add_header(block, bytes, ":authority", "test");
  bytes = add_header(block, bytes, "te", "trailers");
  bytes = add_header(block, bytes, "content-type", "application/grpc");
  raw->stream += raw->stream ? 2 : 1;
  send_frame(raw, HEADERS, END_HEADERS, raw->stream, block, bytes);
}

/* One message on the newest call. */
static void raw_say(const struct raw *raw, int flags) {
  static const uint8_t message[] = {0, 0, 0, 0, 1, 'x'};
  send_frame(raw, DATA, flags, raw->stream, message, sizeof(message));
}

/* A call with one message, and its end. */
static void raw_ask(struct raw *raw, const char *path) {
  raw_open(raw, path);
  raw_say(raw, END_STREAM);
}

static void read_exactly(const struct raw *raw, uint8_t *bytes, size_t count) {
  for (size_t at = 0; at < count;) {
    ssize_t n = recv(raw->fd, bytes + at, count - at, 0);
    assert_true(n > 0);
    at += (size_t)n;
  }
}

/* Whether the call is answered by a message; else it is reset. */
static bool raw_is_answered(const struct raw *raw) {
  uint8_t head[9], payload[1024];
  for (;;) {
    read_exactly(raw, head, sizeof(head));
    size_t bytes = (size_t)head[1] << 8 | head[2];
    assert_true(bytes <= sizeof(payload));
    read_exactly(raw, payload, bytes);
    if (head[3] == DATA || head[3] == RST_STREAM) return head[3] == DATA;
  }
}

/* ---- */

static void calls_that_wait_for_their_peer_are_ended(void **state) {
  (void)state;
  struct fixture f;
  fixture_create_bounded(&f, "127.0.0.1:0", 1, 1000, 0, 0, PATIENCE_MS);
  struct raw raw = raw_connect(&f);
  for (int i = 0; i < 3; i++) raw_ask(&raw, "/test/Unary");
  for (int i = 0; i < 3; i++) raw_open(&raw, "/test/Unary");
  assert_true(fixture_reaches(&f.messages, 3));
  assert_true(fixture_reaches(&f.opened, 6));
  assert_int_equal(atomic_load(&f.closed), 0);
  assert_true(fixture_reaches(&f.closed, 6));
  close(raw.fd);
  fixture_destroy(&f);
}

/* A message that came in time, while the server's own thread was busy. */
static void a_peer_is_not_blamed_for_a_busy_server(void **state) {
  (void)state;
  struct fixture f;
  fixture_create_bounded(&f, "127.0.0.1:0", 1, 1000, 0, 0, PATIENCE_MS);
  struct raw patient = raw_connect_as(&f, true), busy = raw_connect(&f);
  raw_open(&patient, "/test/Echo");
  assert_true(fixture_reaches(&f.opened, 1));
  raw_ask(&busy, "/test/Slow");
  clock_sleep_us(300000);
  raw_say(&patient, 0);
  assert_true(raw_is_answered(&patient));
  close(patient.fd), close(busy.fd);
  fixture_destroy(&f);
}

/* A stream between two messages, or with one in hand, does not wait for its peer. */
static void calls_that_play_are_not_ended(void **state) {
  (void)state;
  struct fixture f;
  fixture_create_bounded(&f, "127.0.0.1:0", 1, 1000, 0, 0, PATIENCE_MS);
  struct rpc_channel *channel = rpc_channel_create(f.address, 1000, NULL);
  struct rpc_call *call[3];
  struct rpc_result result;
  bool ended;
  for (int i = 0; i < 3; i++) {
    call[i] = rpc_call_open(channel, "/test/Echo");
    assert_true(fixture_say(call[i], "hello", &result, &ended));
  }
  clock_sleep_us(2500000);
  for (int i = 0; i < 3; i++) {
    assert_true(fixture_say(call[i], "still here", &result, &ended));
    rpc_call_close(call[i]);
  }
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
}

/* One that hurries is silent after its first message. */
static void calls_that_hurry_wait_for_each_message(void **state) {
  (void)state;
  struct fixture f;
  fixture_create_bounded(&f, "127.0.0.1:0", 1, 1000, 0, 0, PATIENCE_MS);
  struct rpc_channel *channel = rpc_channel_create(f.address, 1000, NULL);
  struct rpc_call *call = rpc_call_open(channel, "/test/Hurry");
  struct rpc_result result;
  bool ended;
  assert_true(fixture_say(call, "hello", &result, &ended));
  assert_true(fixture_reaches(&f.closed, 1));
  assert_false(fixture_say(call, "late", &result, &ended));
  assert_int_equal(result.code, RPC_DEADLINE_EXCEEDED);
  assert_non_null(strstr(result.text, "the next message did not come"));
  rpc_call_close(call);
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
}

/* A gRPC client waits until there is room. */
static void a_client_keeps_to_the_bound_of_a_connection(void **state) {
  (void)state;
  struct fixture f;
  fixture_create_bounded(&f, "127.0.0.1:0", 1, 1000, 0, 2, 0);
  struct rpc_channel *channel = rpc_channel_create(f.address, 1000, NULL);
  struct rpc_call *call[2];
  struct rpc_result result;
  uint8_t *reply;
  size_t bytes;
  bool ended;
  for (int i = 0; i < 2; i++) {
    call[i] = rpc_call_open(channel, "/test/Echo");
    assert_true(fixture_say(call[i], "hello", &result, &ended));
  }
  result = rpc_unary(channel, "/test/Unary", "x", 1, &reply, &bytes, 300);
  assert_int_equal(result.code, RPC_DEADLINE_EXCEEDED);
  rpc_call_close(call[0]);
  result = rpc_unary(channel, "/test/Unary", "x", 1, &reply, &bytes, 10000);
  assert_int_equal(result.code, RPC_OK);
  free(reply);
  rpc_call_close(call[1]);
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
}

int main(void) {
  log_init("test", LOG_ERROR);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_that_wait_for_their_peer_are_ended),
      cmocka_unit_test(a_peer_is_not_blamed_for_a_busy_server),
      cmocka_unit_test(calls_that_play_are_not_ended),
      cmocka_unit_test(calls_that_hurry_wait_for_each_message),
      cmocka_unit_test(a_client_keeps_to_the_bound_of_a_connection),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
