// The first Join that is one tells the environment; every Join is answered.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "common/base/log.h"
#include "common/rpc/client.h"
#include "learner/serve/greeter.h"

enum { WAIT_MS = 10000 };

static char folder[] = "/tmp/acorn-unit-XXXXXX", address[64];
static struct wire_join_request first;

static int setup(void **state) {
  (void)state;
  log_init("test", LOG_ERROR);
  if (!mkdtemp(folder)) return -1;
  snprintf(address, sizeof(address), "unix:%s/socket", folder);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  unlink(address + strlen("unix:"));
  return rmdir(folder);
}

static void *greet(void *failed) {
  struct error error;
  *(int *)failed = greeter_wait(&first, address, NULL, &error) != STATUS_OK;
  return NULL;
}

static struct rpc_result call(struct rpc_channel *channel, const char *path, const void *bytes,
                              size_t size) {
  uint8_t *reply = NULL;
  size_t reply_bytes;
  struct rpc_result result = rpc_unary(channel, path, bytes, size, &reply, &reply_bytes, WAIT_MS);
  free(reply);
  return result;
}

static struct rpc_result join(struct rpc_channel *channel, const char *environment, int protocol) {
  struct wire_join_request request = {
      .protocol = protocol,
      .name = "python/0",
      .space = {.num_tensors = 1, .tensor = {{"x", DTYPE_FLOAT32, 1, {3}}}, .discrete = 5},
      .num_environments = 4};
  snprintf(request.environment, sizeof(request.environment), "%s", environment);
  size_t size;
  uint8_t *bytes = wire_pack_join_request(&request, &size);
  struct rpc_result result = call(channel, "/acorn.Acorn/Join", bytes, size);
  free(bytes);
  return result;
}

static void learns_from_the_first_join(void **state) {
  (void)state;
  for (int round = 0; round < 2; round++) { // the address is free again afterwards
    pthread_t thread;
    int failed;
    first = (struct wire_join_request){0};
    assert_int_equal(pthread_create(&thread, NULL, greet, &failed), 0);
    struct rpc_channel *channel = rpc_channel_create(address, 1 << 16, NULL);
    assert_int_equal(call(channel, "/grpc.health.v1.Health/Check", "", 0).code, RPC_OK);
    assert_int_equal(call(channel, "/acorn.Acorn/Join", "\377", 1).code, RPC_INVALID_ARGUMENT);
    assert_int_equal(join(channel, "../../meadow", WIRE_PROTOCOL).code, RPC_INVALID_ARGUMENT);
    assert_int_equal(join(channel, "meadow", 7).code, RPC_INVALID_ARGUMENT);
    struct rpc_result result = join(channel, "meadow(size=9)", WIRE_PROTOCOL);
    assert_int_equal(result.code, RPC_UNAVAILABLE);
    pthread_join(thread, NULL);
    rpc_channel_destroy(channel);
    assert_int_equal(failed, 0);
    assert_string_equal(first.environment, "meadow(size=9)");
    assert_int_equal(first.space.discrete, 5);
    assert_int_equal(first.space.tensor[0].shape[0], 3);
  }
}

/* Once the greeter waits: it has taken the address. */
static void *raise_when_it_listens(void *signal_number) {
  struct rpc_channel *channel = rpc_channel_create(address, 1 << 16, NULL);
  while (call(channel, "/grpc.health.v1.Health/Check", "", 0).code != RPC_OK) continue;
  rpc_channel_destroy(channel);
  kill(getpid(), *(const int *)signal_number);
  return NULL;
}

static void a_signal_ends_the_wait(void **state) {
  (void)state;
  static int signals[] = {SIGTERM, SIGINT, SIGHUP};
  for (int i = 0; i < 3; i++) {
    struct error error;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, raise_when_it_listens, &signals[i]), 0);
    assert_int_equal(greeter_wait(&first, address, NULL, &error), STATUS_DONE);
    pthread_join(thread, NULL);
    /* The next one is not the greeter's. */
    struct sigaction now;
    assert_int_equal(sigaction(signals[i], NULL, &now), 0);
    assert_true(now.sa_handler == SIG_DFL);
  }
}

static void wants_a_port(void **state) {
  (void)state;
  struct error error;
  assert_int_equal(greeter_wait(&first, "127.0.0.1:0", NULL, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "name a port"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(learns_from_the_first_join),
      cmocka_unit_test(a_signal_ends_the_wait),
      cmocka_unit_test(wants_a_port),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
