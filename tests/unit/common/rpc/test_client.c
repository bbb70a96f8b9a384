/* The client's half over real sockets: bytes there and back, how calls end, and waiting for a
 * server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <unistd.h>

#include "rpc_fixture.h"

static void fill(uint8_t *bytes, size_t size, uint32_t seed) {
  for (size_t i = 0; i < size; i++)
    bytes[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
}

/* ---- bytes */

static void bodies_come_back_whole(void **state) {
  (void)state;
  static const size_t sizes[] = {0, 1, 1000, (28 << 10) - 1, 28 << 10, 1 << 20, 8 << 20};
  static const char *const addresses[] = {"127.0.0.1:0", "unix:bod#i?s%41.sock"};
  uint8_t *body = malloc(8 << 20);
  for (int a = 0; a < 2; a++) {
    struct fixture f;
    fixture_create(&f, addresses[a], 1, FIXTURE_MESSAGE_BYTES);
    struct rpc_channel *channel = rpc_channel_create(f.address, FIXTURE_MESSAGE_BYTES, NULL);
    struct rpc_call *call = rpc_call_open(channel, "/test/Echo");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
      for (size_t header = 0; header <= 20; header += 20) {
        struct fixture_reply reply = {0};
        bool ended;
        fill(body, sizes[i], (uint32_t)(i + header));
        struct rpc_result result = rpc_exchange(call, "twenty bytes header.", header, body,
                                                sizes[i], fixture_receive, &reply, &ended);
        assert_int_equal(result.code, RPC_OK);
        assert_int_equal(reply.size, header + sizes[i]);
        assert_memory_equal(reply.bytes, "twenty bytes header.", header);
        assert_int_equal(memcmp(reply.bytes + header, body, sizes[i]), 0);
        memset(body, 0xEE, sizes[i]); /* it is ours again */
        free(reply.bytes);
      }
    rpc_call_close(call);
    rpc_channel_destroy(channel);
    fixture_destroy(&f);
  }
  free(body);
}

/* Exactly as large as the server allows. */
static void a_message_near_the_bound_crosses(void **state) {
  (void)state;
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  struct rpc_channel *channel = rpc_channel_create(f.address, FIXTURE_MESSAGE_BYTES, NULL);
  struct rpc_call *call = rpc_call_open(channel, "/test/Echo");
  size_t size = FIXTURE_MESSAGE_BYTES;
  uint8_t *body = malloc(size);
  fill(body, size, 9);
  struct fixture_reply reply = {0};
  bool ended;
  assert_int_equal(rpc_exchange(call, "", 0, body, size, fixture_receive, &reply, &ended).code,
                   RPC_OK);
  assert_int_equal(reply.size, size);
  assert_int_equal(memcmp(reply.bytes, body, size), 0);
  free(reply.bytes);
  free(body);
  rpc_call_close(call);
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
}

/* ---- many at once */

struct talker {
  pthread_t thread;
  const char *address;
  uint32_t number;
  int failures;
};

static void *talk(void *argument) {
  struct talker *talker = argument;
  struct rpc_channel *channel = rpc_channel_create(talker->address, FIXTURE_MESSAGE_BYTES, NULL);
  struct rpc_call *call =
      rpc_call_open(channel, talker->number % 2 ? "/test/Echo" : "/test/EchoToo");
  for (uint32_t i = 0; i < 1000; i++) {
    uint32_t words[16];
    for (uint32_t w = 0; w < 16; w++) words[w] = talker->number * 1000003u + i * 16 + w;
    struct fixture_reply reply = {0};
    bool ended;
    struct rpc_result result =
        rpc_exchange(call, words, 4, words + 1, sizeof(words) - 4, fixture_receive, &reply, &ended);
    talker->failures += result.code != RPC_OK || reply.size != sizeof(words) ||
                        memcmp(reply.bytes, words, sizeof(words)) != 0;
    free(reply.bytes);
    if (ended) break;
  }
  rpc_call_close(call);
  rpc_channel_destroy(channel);
  return NULL;
}

static void sixteen_streams_on_two_queues(void **state) {
  (void)state;
  static const char *const addresses[] = {"127.0.0.1:0", "unix:streams.sock"};
  for (int a = 0; a < 2; a++) {
    struct fixture f;
    struct talker talkers[16];
    fixture_create(&f, addresses[a], 2, FIXTURE_MESSAGE_BYTES);
    for (uint32_t i = 0; i < 16; i++) {
      talkers[i] = (struct talker){.address = f.address, .number = i};
      pthread_create(&talkers[i].thread, NULL, talk, &talkers[i]);
    }
    for (int i = 0; i < 16; i++) {
      pthread_join(talkers[i].thread, NULL);
      assert_int_equal(talkers[i].failures, 0);
    }
    assert_true(fixture_reaches(&f.closed, 16));
    assert_int_equal(atomic_load(&f.opened), 16);
    assert_int_equal(atomic_load(&f.messages), 16000);
    assert_int_equal(atomic_load(&f.wrong_thread), 0);
    fixture_destroy(&f);
  }
}

/* ---- how calls end */

static void endings_arrive_with_their_words(void **state) {
  (void)state;
  static const struct {
    const char *path;
    enum rpc_code code;
    const char *text;
  } cases[] = {
      {"/test/Refuse", RPC_INVALID_ARGUMENT, "row 3 is bad: 100% wrong\nand \"quoted\""},
      {"/test/Done", RPC_OK, "training done"},
      {"/test/Unknown", RPC_UNIMPLEMENTED, "no such method here"},
      {"/", RPC_UNIMPLEMENTED, "no such method here"},
  };
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  struct rpc_channel *channel = rpc_channel_create(f.address, FIXTURE_MESSAGE_BYTES, NULL);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct rpc_call *call = rpc_call_open(channel, cases[i].path);
    struct rpc_result result;
    bool ended;
    assert_false(fixture_say(call, "hello", &result, &ended));
    assert_true(ended);
    assert_int_equal(result.code, cases[i].code);
    assert_string_equal(result.text, cases[i].text);
    rpc_call_close(call);
    uint8_t *reply;
    size_t size;
    result = rpc_unary(channel, cases[i].path, "x", 1, &reply, &size, 5000);
    assert_int_equal(result.code, cases[i].code == RPC_OK ? RPC_INTERNAL : cases[i].code);
    assert_null(reply);
  }
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
}

static void unary_calls_carry_any_size(void **state) {
  (void)state;
  static const size_t sizes[] = {0, 1, 100, 1 << 20};
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  struct rpc_channel *channel = rpc_channel_create(f.address, FIXTURE_MESSAGE_BYTES, NULL);
  static uint8_t body[1 << 20];
  fill(body, sizeof(body), 5);
  for (int i = 0; i < 8; i++) {
    uint8_t *reply;
    size_t size;
    const char *path =
        i < 4 ? "/test/Unary" : "/test/Bare"; /* the second has neither on_open nor on_close */
    struct rpc_result result = rpc_unary(channel, path, body, sizes[i % 4], &reply, &size, 5000);
    assert_int_equal(result.code, RPC_OK);
    assert_int_equal(size, sizes[i % 4]);
    assert_non_null(reply);
    assert_int_equal(memcmp(reply, body, size), 0);
    free(reply);
  }
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
}

/* A call that is cancelled once the server has its message, which it never answers. */
struct cancelled {
  struct fixture *fixture;
  struct rpc_call *call;
  struct rpc_stream *held;
};

static void *cancel_when_held(void *argument) {
  struct cancelled *cancelled = argument;
  cancelled->held = fixture_take_held(cancelled->fixture);
  clock_sleep_us(10000);
  rpc_call_cancel(cancelled->call);
  return NULL;
}

static void exchange_that_is_cancelled(struct rpc_call *call, size_t body_bytes) {
  static uint8_t body[1 << 20];
  struct fixture_reply reply = {0};
  bool ended;
  struct rpc_result result =
      rpc_exchange(call, "h", 1, body, body_bytes, fixture_receive, &reply, &ended);
  assert_int_equal(result.code, RPC_CANCELLED);
  assert_true(ended);
  assert_null(reply.bytes);
  rpc_call_cancel(call); /* harmless now */
}

/* While it waits for the answer to a small and to a large message, and before it begins. */
static void a_cancel_ends_an_exchange(void **state) {
  (void)state;
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  struct rpc_channel *channel = rpc_channel_create(f.address, FIXTURE_MESSAGE_BYTES, NULL);
  for (int i = 0; i < 2; i++) {
    struct cancelled cancelled = {.fixture = &f, .call = rpc_call_open(channel, "/test/Hold")};
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_when_held, &cancelled);
    exchange_that_is_cancelled(cancelled.call, i ? 1 << 20 : 10);
    pthread_join(thread, NULL);
    rpc_stream_reply(cancelled.held, "", 0, NULL, 0);
    rpc_call_close(cancelled.call);
  }
  struct rpc_call *call = rpc_call_open(channel, "/test/Hold");
  rpc_call_cancel(call);
  exchange_that_is_cancelled(call, 10);
  rpc_call_close(call);
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
}

static void a_call_may_be_closed_unused(void **state) {
  (void)state;
  struct rpc_channel *channel = rpc_channel_create("127.0.0.1:1", 1000, NULL);
  rpc_call_close(rpc_call_open(channel, "/test/Echo"));
  rpc_call_close(NULL);
  rpc_channel_destroy(channel);
  rpc_channel_destroy(NULL);
}

/* ---- no server */

static void a_dead_server_is_unavailable_at_the_first_exchange(void **state) {
  (void)state;
  static uint8_t body[1 << 20];
  static const char *const addresses[] = {"127.0.0.1:1", "unix:nobody.sock"};
  for (int i = 0; i < 2; i++) {
    struct rpc_channel *channel = rpc_channel_create(addresses[i], 1000, NULL);
    struct rpc_call *call = rpc_call_open(channel, "/test/Echo");
    struct fixture_reply reply = {0};
    bool ended;
    int64_t start = clock_now_us();
    struct rpc_result result =
        rpc_exchange(call, "h", 1, body, sizeof(body), fixture_receive, &reply, &ended);
    assert_int_equal(result.code, RPC_UNAVAILABLE);
    assert_true(ended && result.text[0]);
    assert_in_range(clock_now_us() - start, 0, 8000000);
    rpc_call_close(call);
    rpc_channel_destroy(channel);
  }
}

static void a_server_that_goes_is_unavailable(void **state) {
  (void)state;
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  struct rpc_channel *channel = rpc_channel_create(f.address, FIXTURE_MESSAGE_BYTES, NULL);
  struct rpc_call *call = rpc_call_open(channel, "/test/Echo");
  struct rpc_result result;
  bool ended;
  assert_true(fixture_say(call, "hello", &result, &ended));
  fixture_stop(&f);
  assert_false(fixture_say(call, "hello?", &result, &ended));
  assert_int_equal(result.code, RPC_UNAVAILABLE);
  assert_true(ended);
  rpc_call_close(call);
  fixture_destroy(&f);
  /* The channel comes back by itself when the server does. */
  char address[128];
  memcpy(address, f.address, sizeof(address));
  fixture_create(&f, address, 1, FIXTURE_MESSAGE_BYTES);
  uint8_t *reply;
  size_t size;
  assert_int_equal(rpc_unary(channel, "/test/Unary", "x", 1, &reply, &size, 10000).code, RPC_OK);
  free(reply);
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
}

struct late_server {
  struct fixture fixture;
  const char *address;
};

static void *start_late(void *argument) {
  struct late_server *late = argument;
  clock_sleep_us(300000);
  fixture_create(&late->fixture, late->address, 1, FIXTURE_MESSAGE_BYTES);
  return NULL;
}

static void a_unary_call_waits_for_its_server(void **state) {
  (void)state;
  struct late_server late = {.address = "unix:late.sock"};
  unlink(late.address + 5);
  struct rpc_channel *channel = rpc_channel_create(late.address, 1000, NULL);
  uint8_t *reply;
  size_t size;
  int64_t start = clock_now_us();
  struct rpc_result result = rpc_unary(channel, "/test/Unary", "x", 1, &reply, &size, 200);
  assert_int_equal(result.code, RPC_DEADLINE_EXCEEDED);
  assert_in_range(clock_now_us() - start, 190000, 5000000);
  pthread_t thread;
  pthread_create(&thread, NULL, start_late, &late);
  result = rpc_unary(channel, "/test/Unary", "x", 1, &reply, &size, 20000);
  assert_int_equal(result.code, RPC_OK);
  free(reply);
  pthread_join(thread, NULL);
  rpc_channel_destroy(channel);
  fixture_destroy(&late.fixture);
}

/* The Unix sockets lie in a folder of this process. */
static char folder[] = "/tmp/test_client_XXXXXX";

static int enter_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? chdir(folder) : -1;
}

static int leave_folder(void **state) {
  (void)state;
  static const char *const sockets[] = {"bodies.sock", "streams.sock", "late.sock"};
  for (int i = 0; i < 3; i++) unlink(sockets[i]);
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bodies_come_back_whole),
      cmocka_unit_test(a_message_near_the_bound_crosses),
      cmocka_unit_test(sixteen_streams_on_two_queues),
      cmocka_unit_test(endings_arrive_with_their_words),
      cmocka_unit_test(unary_calls_carry_any_size),
      cmocka_unit_test(a_cancel_ends_an_exchange),
      cmocka_unit_test(a_call_may_be_closed_unused),
      cmocka_unit_test(a_dead_server_is_unavailable_at_the_first_exchange),
      cmocka_unit_test(a_server_that_goes_is_unavailable),
      cmocka_unit_test(a_unary_call_waits_for_its_server),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
