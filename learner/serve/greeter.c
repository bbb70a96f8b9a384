#include "learner/serve/greeter.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/cluster/host_port.h"
#include "common/rpc/server.h"
#include "envs/plugin.h"
#include "learner/serve/refusals.h"

enum {
  MAX_MESSAGE_BYTES = 1 << 17,
  MAX_CALLS = 4096,
  MAX_CONNECTION_CALLS = 128,
  POLL_US = 100000,
  GRACE_US = 1000000,
  SAY_US = 10000000
};

struct greeter {
  struct wire_join_request *first;
  bool has_first;
  struct refusals refusals;
};

static enum status check(const struct wire_join_request *request, struct error *error) {
  if (request->protocol != WIRE_PROTOCOL)
    return status_fail(error, STATUS_INVALID, "protocol %d here, %d there", WIRE_PROTOCOL,
                       request->protocol);
  if (plugin_is_name(request->environment, strcspn(request->environment, "("))) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "the environment '%s' needs a name of 1..31 letters, digits, '_', '-' or '.'",
                     request->environment);
}

static void join_message(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                         int num_spans) {
  struct greeter *greeter = context;
  struct wire_join_request request;
  struct error error;
  size_t size;
  uint8_t *bytes = wire_gather(spans, num_spans, &size);
  enum status status = wire_unpack_join_request(&request, bytes, size, &error);
  free(bytes);
  if (status == STATUS_OK) status = check(&request, &error);
  if (status != STATUS_OK) {
    char peer[RPC_PEER_BYTES];
    rpc_stream_peer(stream, peer);
    refusals_note(&greeter->refusals, REFUSED_JOIN, peer, error.text, clock_now_us());
    rpc_stream_finish(stream, RPC_INVALID_ARGUMENT, error.text, NULL, 0);
    return;
  }
  if (!greeter->has_first) *greeter->first = request;
  greeter->has_first = true;
  rpc_stream_finish(stream, RPC_UNAVAILABLE,
                    "the learner gets ready for this environment: join again", NULL, 0);
}

/* HealthCheckResponse {status: SERVING}: it waits, as it should. */
static void health_message(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                           int num_spans) {
  (void)context, (void)spans, (void)num_spans;
  const uint8_t serving[] = {0x08, 1};
  rpc_stream_finish(stream, RPC_OK, "", serving, sizeof(serving));
}

/* ---- signals: the control loop, which takes them later, does not run yet */

enum { NUM_SIGNALS = 3 };
static const int signals[NUM_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t caught; /* the first one; 0: none */

/* A second Ctrl-C ends at once; what stops a service may signal twice. */
static void on_signal(int signal_number) {
  if (caught && signal_number == SIGINT) _exit(130);
  if (!caught) caught = signal_number;
}

static void take_signals(struct sigaction before[NUM_SIGNALS]) {
  struct sigaction action = {.sa_handler = on_signal};
  caught = 0;
  for (int i = 0; i < NUM_SIGNALS; i++)
    sigaction(signals[i], process_ignores(signals[i]) ? NULL : &action, &before[i]);
}

static void give_signals_back(const struct sigaction before[NUM_SIGNALS]) {
  for (int i = 0; i < NUM_SIGNALS; i++) sigaction(signals[i], &before[i], NULL);
}

/* ---- */

static void serve(struct rpc_server *server, const struct greeter *greeter, const char *address) {
  int64_t say_us = clock_now_us();
  while (!greeter->has_first && !caught) {
    int64_t now_us = clock_now_us();
    if (now_us >= say_us) {
      log_info("waiting at %s for the first actor, to take its environment", address);
      say_us += SAY_US;
    }
    rpc_server_poll(server, 0, now_us + POLL_US);
  }
}

/* The answers go out first; a call that never says anything is not waited for. */
static void stop(struct rpc_server *server) {
  int64_t until_us = clock_now_us() + GRACE_US;
  rpc_server_shutdown(server);
  bool drained = false;
  while (!drained && clock_now_us() < until_us) drained = rpc_server_poll(server, 0, until_us) < 0;
  rpc_server_cancel_all(server);
  while (!drained) drained = rpc_server_poll(server, 0, clock_now_us() + POLL_US) < 0;
  rpc_server_destroy(server);
}

/* "HOST:0" */
static bool has_open_port(const char *address) {
  const char *colon = strrchr(address, ':');
  return !host_port_path(address) && colon && strspn(colon + 1, "0") == strlen(colon + 1);
}

enum status greeter_wait(struct wire_join_request *first, const char *address,
                         struct credentials *credentials, struct error *error) {
  if (has_open_port(address))
    return status_fail(error, STATUS_INVALID,
                       "--listen=%s: name a port with --env=join, so that actors can be told it",
                       address);
  struct greeter greeter = {.first = first};
  const struct rpc_method methods[] = {
      {"/acorn.Acorn/Join", &greeter, NULL, join_message, NULL, false, false},
      {"/grpc.health.v1.Health/Check", &greeter, NULL, health_message, NULL, false, false}};
  struct rpc_server_config config = {.address = address,
                                     .credentials = credentials,
                                     .num_queues = 1,
                                     .methods = methods,
                                     .num_methods = 2,
                                     .max_message_bytes = MAX_MESSAGE_BYTES,
                                     .max_calls = MAX_CALLS,
                                     .max_connection_calls = MAX_CONNECTION_CALLS};
  struct rpc_server *server;
  enum status status = rpc_server_create(&server, &config, error);
  if (status != STATUS_OK) return status;
  refusals_init(&greeter.refusals);
  struct sigaction before[NUM_SIGNALS];
  take_signals(before);
  serve(server, &greeter, address);
  if (caught)
    log_info("%s: stopping; no actor has come, so there is no run", strsignal(caught));
  else
    log_info("%s joined first: the environment is %s", first->name, first->environment);
  stop(server);
  give_signals_back(before);
  refusals_deinit(&greeter.refusals);
  return caught ? STATUS_DONE : STATUS_OK;
}
