/* A large body that is half-written to a peer which no longer reads: gRPC still holds the caller's
 * memory then, and must have let go of it before the exchange returns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/rpc/client.h"
#include "tests/unit/support/skip.h"

enum { BODY_BYTES = 64 << 20, KEEPALIVE_US = 40000000, SOON_US = 300000 };

/* A peer that says what a server of HTTP/2 says first, offers a large window, and reads nothing. */
struct frozen {
  int listener, connection;
  char address[32];
};

static void frozen_create(struct frozen *frozen) {
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof(place);
  frozen->listener = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(frozen->listener, (struct sockaddr *)&place, bytes), 0);
  assert_int_equal(listen(frozen->listener, 1), 0);
  assert_int_equal(getsockname(frozen->listener, (struct sockaddr *)&place, &bytes), 0);
  snprintf(frozen->address, sizeof(frozen->address), "127.0.0.1:%d", ntohs(place.sin_port));
}

static void frozen_accept(struct frozen *frozen) {
  /* SETTINGS: a window of 2^30 for each stream; WINDOW_UPDATE: as much for all. */
  static const uint8_t hello[] = {0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4,    0x40, 0, 0,
                                  0, 0, 0, 4, 8, 0, 0, 0, 0, 0, 0x40, 0,    0, 0};
  frozen->connection = accept(frozen->listener, NULL, NULL);
  assert_true(frozen->connection >= 0);
  assert_int_equal(write(frozen->connection, hello, sizeof(hello)), sizeof(hello));
}

static void ignore(void *context, const struct wire_span *spans, int n) {
  (void)context, (void)spans, (void)n;
}

/* The exchange, on a thread of its own. */
struct exchange {
  pthread_t thread;
  struct rpc_channel *channel;
  struct rpc_call *call;
  uint8_t *body;
  struct rpc_result result;
  bool ended;
};

static void *exchange_run(void *argument) {
  struct exchange *e = argument;
  e->result = rpc_exchange(e->call, "h", 1, e->body, BODY_BYTES, ignore, NULL, &e->ended);
  /* It is ours again: whoever still reads it shows under a sanitizer. */
  free(e->body);
  return NULL;
}

static void exchange_start(struct exchange *e, struct frozen *frozen) {
  frozen_create(frozen);
  *e = (struct exchange){.body = calloc(BODY_BYTES, 1)};
  e->channel = rpc_channel_create(frozen->address, BODY_BYTES, NULL);
  e->call = rpc_call_open(e->channel, "/test/Echo");
  pthread_create(&e->thread, NULL, exchange_run, e);
  frozen_accept(frozen);
  clock_sleep_us(SOON_US); /* the connection's buffers fill */
}

static void exchange_finish(struct exchange *e, struct frozen *frozen) {
  assert_true(e->ended);
  rpc_call_close(e->call);
  rpc_channel_destroy(e->channel);
  close(frozen->connection);
  close(frozen->listener);
}

static void a_peer_that_goes_in_the_middle_of_a_body(void **state) {
  (void)state;
  struct frozen frozen;
  struct exchange e;
  exchange_start(&e, &frozen);
  shutdown(frozen.connection, SHUT_RDWR);
  close(frozen.connection);
  int64_t start_us = clock_now_us();
  pthread_join(e.thread, NULL);
  assert_int_equal(e.result.code, RPC_UNAVAILABLE);
  assert_in_range(clock_now_us() - start_us, 0, 5000000);
  frozen.connection = -1;
  exchange_finish(&e, &frozen);
}

/* It hangs: only the keepalive can tell, and only then does gRPC let go of the body. */
static void a_cancel_while_the_peer_hangs_in_the_middle_of_a_body(void **state) {
  (void)state;
  if (!getenv("SLOW_TESTS")) SKIP("it takes up to 40 s; --all runs it");
  struct frozen frozen;
  struct exchange e;
  exchange_start(&e, &frozen);
  int64_t start_us = clock_now_us();
  rpc_call_cancel(e.call);
  pthread_join(e.thread, NULL);
  assert_int_equal(e.result.code, RPC_CANCELLED);
  assert_in_range(clock_now_us() - start_us, 0, KEEPALIVE_US + 10000000);
  exchange_finish(&e, &frozen);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_peer_that_goes_in_the_middle_of_a_body),
      cmocka_unit_test(a_cancel_while_the_peer_hangs_in_the_middle_of_a_body),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
