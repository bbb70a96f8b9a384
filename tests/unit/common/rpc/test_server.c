/* The server's half over real sockets: the life of streams, answers from other threads, bad peers,
 * shutdown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rpc_fixture.h"

/* A process that was forked before gRPC started; it says one thing to /test/Hold at the address
 * it is given, and waits. */
static int child_pipe = -1;
static pid_t child;

static void start_child(void) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  child = fork();
  if (child != 0) {
    close(ends[0]);
    child_pipe = ends[1];
    return;
  }
  close(ends[1]);
  char address[128] = {0};
  if (read(ends[0], address, sizeof(address) - 1) <= 0) _exit(0);
  struct rpc_channel *channel = rpc_channel_create(address, FIXTURE_MESSAGE_BYTES, NULL);
  struct rpc_call *call = rpc_call_open(channel, "/test/Hold");
  struct rpc_result result;
  bool ended;
  fixture_say(call, "hold this", &result, &ended);
  _exit(1);
}

/* ---- streams */

/* A client that is blocked in an exchange, on a thread of its own. */
struct blocked {
  pthread_t thread;
  struct rpc_channel *channel;
  struct rpc_call *call;
  struct rpc_result result;
  bool ended, came;
};

static void *blocked_thread(void *argument) {
  struct blocked *b = argument;
  b->came = fixture_say(b->call, "hello", &b->result, &b->ended);
  return NULL;
}

static void blocked_start(struct blocked *b, const char *address, const char *path) {
  *b = (struct blocked){0};
  b->channel = rpc_channel_create(address, FIXTURE_MESSAGE_BYTES, NULL);
  b->call = rpc_call_open(b->channel, path);
  pthread_create(&b->thread, NULL, blocked_thread, b);
}

static void blocked_join(struct blocked *b) {
  pthread_join(b->thread, NULL);
}

static void blocked_close(struct blocked *b) {
  rpc_call_close(b->call);
  rpc_channel_destroy(b->channel);
}

static void another_thread_answers(void **state) {
  (void)state;
  struct fixture f;
  struct blocked b;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  for (int answer = ANSWER_REPLY; answer <= ANSWER_CANCEL; answer++) {
    blocked_start(&b, f.address, "/test/Hold");
    struct rpc_stream *stream = fixture_take_held(&f);
    char peer[RPC_PEER_BYTES];
    rpc_stream_peer(stream, peer);
    assert_non_null(strstr(peer, "127.0.0.1:"));
    if (answer == ANSWER_REPLY) rpc_stream_reply(stream, "ab", 2, "cd", 2);
    if (answer == ANSWER_FINISH)
      rpc_stream_finish(stream, RPC_FAILED_PRECONDITION, "not now", NULL, 0);
    if (answer == ANSWER_CANCEL) rpc_stream_cancel(stream, RPC_ABORTED, "superseded");
    blocked_join(&b);
    assert_int_equal(b.came, answer == ANSWER_REPLY);
    assert_int_equal(b.ended, answer != ANSWER_REPLY);
    static const enum rpc_code codes[] = {RPC_OK, RPC_FAILED_PRECONDITION, RPC_ABORTED};
    static const char *const texts[] = {"", "not now", "superseded"};
    assert_int_equal(b.result.code, codes[answer]);
    assert_string_equal(b.result.text, texts[answer]);
    if (answer == ANSWER_CANCEL) rpc_stream_reply(stream, "x", 1, NULL, 0); /* goes nowhere */
    blocked_close(&b);
    assert_true(fixture_reaches(&f.closed, answer + 1));
  }
  assert_int_equal(atomic_load(&f.opened), 3);
  assert_int_equal(atomic_load(&f.wrong_thread), 0);
  fixture_destroy(&f);
}

static void an_answer_after_the_close_goes_nowhere(void **state) {
  (void)state;
  struct fixture f;
  struct blocked b;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  for (int i = 0; i < 4; i++) {
    blocked_start(&b, f.address, i < 2 ? "/test/Hold" : "/test/HoldReferenced");
    struct rpc_stream *stream = fixture_take_held(&f);
    rpc_call_cancel(b.call);
    blocked_join(&b);
    assert_int_equal(b.result.code, RPC_CANCELLED);
    assert_true(fixture_reaches(&f.closed, i + 1));
    if (i % 2)
      rpc_stream_reply(stream, "x", 1, NULL, 0);
    else
      rpc_stream_finish(stream, RPC_OK, "", "x", 1);
    if (i >= 2) {
      rpc_stream_cancel(stream, RPC_ABORTED, "too late");
      rpc_stream_unref(stream);
    }
    blocked_close(&b);
  }
  fixture_destroy(&f);
  assert_int_equal(atomic_load(&f.closed), 4);
}

static void a_client_that_is_killed_closes_its_stream(void **state) {
  (void)state;
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  assert_true(write(child_pipe, f.address, strlen(f.address)) > 0);
  struct rpc_stream *stream = fixture_take_held(&f);
  assert_int_equal(atomic_load(&f.closed), 0);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  assert_true(fixture_reaches(&f.closed, 1));
  rpc_stream_reply(stream, "too late", 8, NULL, 0);
  fixture_destroy(&f);
}

static void answers_race_with_cancels(void **state) {
  (void)state;
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  for (int i = 0; i < 200; i++) {
    struct blocked b;
    blocked_start(&b, f.address, "/test/HoldReferenced");
    struct rpc_stream *stream = fixture_take_held(&f);
    rpc_call_cancel(b.call);
    if (i % 3 == 0) clock_sleep_us(i * 5);
    if (i % 2) rpc_stream_cancel(stream, RPC_ABORTED, "race");
    rpc_stream_reply(stream, "x", 1, NULL, 0);
    rpc_stream_unref(stream);
    blocked_join(&b);
    blocked_close(&b);
  }
  assert_true(fixture_reaches(&f.closed, 200));
  fixture_destroy(&f);
}

/* A finished half-close: a unary client closes its half behind its message, the server answers
 * as for a stream. */
static void a_half_close_ends_the_stream_with_ok(void **state) {
  (void)state;
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  struct rpc_channel *channel = rpc_channel_create(f.address, FIXTURE_MESSAGE_BYTES, NULL);
  uint8_t *reply;
  size_t size;
  struct rpc_result result = rpc_unary(channel, "/test/Echo", "abc", 3, &reply, &size, 5000);
  assert_int_equal(result.code, RPC_OK);
  assert_int_equal(size, 3);
  assert_memory_equal(reply, "abc", 3);
  free(reply);
  assert_true(fixture_reaches(&f.closed, 1));
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
}

/* ---- bad peers */

static void a_message_too_large_ends_its_own_stream(void **state) {
  (void)state;
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, 100000);
  struct rpc_channel *channel = rpc_channel_create(f.address, FIXTURE_MESSAGE_BYTES, NULL);
  struct rpc_call *good = rpc_call_open(channel, "/test/Echo"),
                  *bad = rpc_call_open(channel, "/test/Echo");
  struct rpc_result result;
  bool ended;
  assert_true(fixture_say(good, "before", &result, &ended));
  static uint8_t body[100001];
  struct fixture_reply reply = {0};
  result = rpc_exchange(bad, "", 0, body, 100000, fixture_receive, &reply, &ended);
  assert_int_equal(result.code, RPC_OK);
  assert_int_equal(reply.size, 100000);
  result = rpc_exchange(bad, "", 0, body, 100001, fixture_receive, &reply, &ended);
  assert_int_equal(result.code, RPC_RESOURCE_EXHAUSTED);
  assert_true(ended);
  free(reply.bytes);
  assert_true(fixture_say(good, "after", &result, &ended));
  rpc_call_close(bad);
  rpc_call_close(good);
  rpc_channel_destroy(channel);
  assert_true(fixture_reaches(&f.closed, 2));
  fixture_destroy(&f);
}

/* The head of an HTTP/2 connection, or nothing, then what no peer should send. */
static void send_garbage(int port, const char *head, size_t head_bytes, unsigned seed) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(connect(fd, (struct sockaddr *)&place, sizeof(place)), 0);
  assert_true(send(fd, head, head_bytes, MSG_NOSIGNAL) == (ssize_t)head_bytes);
  uint8_t garbage[2000];
  for (size_t i = 0; i < sizeof(garbage); i++)
    garbage[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
  ssize_t sent = send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL);
  (void)sent; /* the server may have hung up */
  close(fd);
}

static void garbage_disturbs_nobody(void **state) {
  (void)state;
  static const char head[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  struct rpc_channel *channel = rpc_channel_create(f.address, FIXTURE_MESSAGE_BYTES, NULL);
  struct rpc_call *call = rpc_call_open(channel, "/test/Echo");
  for (unsigned i = 0; i < 20; i++) {
    struct rpc_result result;
    bool ended;
    send_garbage(rpc_server_port(f.server), head, i % 2 ? sizeof(head) - 1 : 0, i);
    assert_true(fixture_say(call, "still here?", &result, &ended));
  }
  rpc_call_close(call);
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
}

/* ---- end */

static void shutdown_with_messages_in_hand(void **state) {
  (void)state;
  for (int late = 0; late < 2; late++) { /* the answers come before or after the server is freed */
    struct fixture f;
    struct blocked b[3];
    fixture_create(&f, "127.0.0.1:0", 2, FIXTURE_MESSAGE_BYTES);
    for (int i = 0; i < 3; i++) blocked_start(&b[i], f.address, "/test/Hold");
    struct rpc_stream *streams[3];
    for (int i = 0; i < 3; i++) streams[i] = fixture_take_held(&f);
    if (late) fixture_stop(&f);
    for (int i = 0; i < 3; i++) rpc_stream_finish(streams[i], RPC_UNAVAILABLE, "bye", NULL, 0);
    if (!late) fixture_stop(&f);
    for (int i = 0; i < 3; i++) {
      blocked_join(&b[i]);
      assert_int_equal(b[i].result.code, RPC_UNAVAILABLE);
      assert_true(b[i].ended);
      blocked_close(&b[i]);
    }
    assert_int_equal(atomic_load(&f.closed), 3);
    fixture_destroy(&f);
  }
}

static void shutdown_lets_open_calls_end(void **state) {
  (void)state;
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  struct blocked b;
  blocked_start(&b, f.address, "/test/Hold");
  struct rpc_stream *stream = fixture_take_held(&f);
  rpc_server_shutdown(f.server);
  clock_sleep_us(50000);
  rpc_stream_finish(stream, RPC_OK, "training done", NULL, 0);
  blocked_join(&b);
  assert_true(b.ended);
  assert_int_equal(b.result.code, RPC_OK);
  assert_string_equal(b.result.text, "training done");
  blocked_close(&b);
  pthread_join(f.threads[0], NULL); /* without cancel_all */
  rpc_server_destroy(f.server);
  f.server = NULL;
  fixture_destroy(&f);
}

/* ---- bounds */

static void calls_beyond_the_bound_are_refused(void **state) {
  (void)state;
  struct fixture f;
  fixture_create_bounded(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES, 2, 0, 0);
  struct rpc_channel *channel = rpc_channel_create(f.address, FIXTURE_MESSAGE_BYTES, NULL);
  struct rpc_call *call[3];
  struct rpc_result result;
  bool ended;
  for (int i = 0; i < 3; i++) {
    call[i] = rpc_call_open(channel, "/test/Echo");
    assert_int_equal(fixture_say(call[i], "hello", &result, &ended), i < 2);
  }
  assert_int_equal(result.code, RPC_UNAVAILABLE);
  assert_non_null(strstr(result.text, "too many calls"));
  rpc_call_close(call[2]);
  rpc_call_close(call[0]);
  assert_true(fixture_reaches(&f.closed, 1));
  clock_sleep_us(50000); /* the count goes down just after on_close */
  call[0] = rpc_call_open(channel, "/test/Echo");
  assert_true(fixture_say(call[0], "hello", &result, &ended));
  rpc_call_close(call[0]);
  rpc_call_close(call[1]);
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
}

int main(void) {
  start_child();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_client_that_is_killed_closes_its_stream),
      cmocka_unit_test(another_thread_answers),
      cmocka_unit_test(an_answer_after_the_close_goes_nowhere),
      cmocka_unit_test(answers_race_with_cancels),
      cmocka_unit_test(a_half_close_ends_the_stream_with_ok),
      cmocka_unit_test(a_message_too_large_ends_its_own_stream),
      cmocka_unit_test(garbage_disturbs_nobody),
      cmocka_unit_test(shutdown_with_messages_in_hand),
      cmocka_unit_test(shutdown_lets_open_calls_end),
      cmocka_unit_test(calls_beyond_the_bound_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
