/* A poll ends in time, and the control queue answers by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/rpc/client.h"
#include "common/rpc/server.h"

static void a_poll_ends_at_its_deadline(void **state) {
  (void)state;
  struct rpc_method method = {.path = "/x/Y"};
  struct rpc_server_config config = {.address = "127.0.0.1:0",
                                     .num_queues = 1,
                                     .methods = &method,
                                     .num_methods = 1,
                                     .max_message_bytes = 1000};
  struct rpc_server *server;
  assert_int_equal(rpc_server_create(&server, &config, NULL), STATUS_OK);
  int64_t start = clock_now_us();
  assert_int_equal(rpc_server_poll(server, 0, start + 30000), 0);
  assert_in_range(clock_now_us() - start, 29000, 5000000);
  rpc_server_shutdown(server);
  while (rpc_server_poll(server, 0, clock_now_us() + 1000000) >= 0)
    ;
  assert_int_equal(rpc_server_poll(server, 0, clock_now_us()), -1);
  rpc_server_destroy(server);
}

/* A control method, called by a client on a thread of its own. */
struct call {
  char address[64];
  struct rpc_result result;
  atomic_bool done;
};

static void say_hello(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                      int num_spans) {
  (void)context, (void)spans, (void)num_spans;
  rpc_stream_finish(stream, RPC_OK, "", "hello", 5);
}

static void *call_control(void *argument) {
  struct call *call = argument;
  struct rpc_channel *channel = rpc_channel_create(call->address, 1000, NULL);
  uint8_t *reply;
  size_t bytes;
  call->result = rpc_unary(channel, "/x/Control", "", 0, &reply, &bytes, 20000);
  assert_true(!reply || (bytes == 5 && memcmp(reply, "hello", 5) == 0));
  free(reply);
  rpc_channel_destroy(channel);
  atomic_store(&call->done, true);
  return NULL;
}

/* Nobody polls the ordinary queue here: its thread may compute for a long time. */
static void the_control_queue_answers_while_the_other_is_busy(void **state) {
  (void)state;
  struct rpc_method methods[] = {{.path = "/x/Y"},
                                 {.path = "/x/Control", .on_message = say_hello, .control = true}};
  struct rpc_server_config config = {.address = "127.0.0.1:0",
                                     .num_queues = 1,
                                     .methods = methods,
                                     .num_methods = 2,
                                     .max_message_bytes = 1000};
  struct rpc_server *server;
  assert_int_equal(rpc_server_create(&server, &config, NULL), STATUS_OK);
  for (int i = 0; i < 3; i++) {
    struct call call = {.done = false};
    snprintf(call.address, sizeof(call.address), "127.0.0.1:%d", rpc_server_port(server));
    pthread_t thread;
    pthread_create(&thread, NULL, call_control, &call);
    while (!atomic_load(&call.done)) {
      while (rpc_server_poll(server, 1, 0) > 0) continue;
      clock_sleep_us(1000);
    }
    pthread_join(thread, NULL);
    assert_int_equal(call.result.code, RPC_OK);
  }
  rpc_server_shutdown(server);
  int ended[2] = {0};
  while (!ended[0] || !ended[1])
    for (int i = 0; i < 2; i++)
      if (!ended[i]) ended[i] = rpc_server_poll(server, i, clock_now_us() + 10000) < 0;
  rpc_server_destroy(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_poll_ends_at_its_deadline),
      cmocka_unit_test(the_control_queue_answers_while_the_other_is_busy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
