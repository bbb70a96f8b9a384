#include "common/rpc/server.h"

#include <grpc/grpc_security.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/rpc/address.h"
#include "common/rpc/stream.h"

/* One queue with the accept that is always armed on it. */
struct listener {
  struct queue queue;
  struct op accepted;
  struct rpc_server *server;
  int index;
  /* written by gRPC until the accept's event */
  grpc_call *call;
  grpc_call_details details;
  grpc_metadata_array metadata;
};

struct rpc_server {
  struct rpc_server_config config; /* read-only; .address is not kept */
  grpc_server *server;
  grpc_channel *lame; /* carries the queues' wake calls */
  struct listener *listeners;
  int port;
  struct op stopped; /* gRPC's shutdown is complete */
};

/* ---- accepting */

static void arm(struct listener *listener) {
  grpc_call_details_init(&listener->details);
  grpc_metadata_array_init(&listener->metadata);
  grpc_call_error result = grpc_server_request_call(
      listener->server->server, &listener->call, &listener->details, &listener->metadata,
      listener->queue.cq, listener->queue.cq, &listener->accepted);
  CHECK(result == GRPC_CALL_OK, "%s", grpc_call_error_to_string(result));
}

static void disarm(struct listener *listener) {
  grpc_call_details_destroy(&listener->details);
  grpc_metadata_array_destroy(&listener->metadata);
}

static const struct rpc_method *find_method(const struct rpc_server *server, grpc_slice path) {
  for (int i = 0; i < server->config.num_methods; i++)
    if (grpc_slice_str_cmp(path, server->config.methods[i].path) == 0)
      return &server->config.methods[i];
  return NULL;
}

static void accepted(struct op *op, bool ok) {
  struct listener *listener = (struct listener *)((char *)op - offsetof(struct listener, accepted));
  if (!ok) { /* shutting down: there is no call */
    disarm(listener);
    queue_release(&listener->queue);
    return;
  }
  grpc_call *call = listener->call;
  const struct rpc_method *method = find_method(listener->server, listener->details.method);
  disarm(listener);
  arm(listener);
  stream_open(call, method, &listener->queue, listener->index);
}

/* ---- life */

static void stopped(struct op *op, bool ok) {
  (void)ok;
  struct rpc_server *server =
      (struct rpc_server *)((char *)op - offsetof(struct rpc_server, stopped));
  for (int i = 0; i < server->config.num_queues; i++) queue_release(&server->listeners[i].queue);
}

static void create_queues(struct rpc_server *server) {
  server->lame = grpc_lame_client_channel_create("", GRPC_STATUS_UNAVAILABLE, "not a channel");
  server->listeners = check_alloc((size_t)server->config.num_queues, sizeof(*server->listeners));
  for (int i = 0; i < server->config.num_queues; i++) {
    struct listener *listener = &server->listeners[i];
    listener->server = server;
    listener->index = i;
    listener->accepted.run = accepted;
    queue_init(&listener->queue, server->lame);
    grpc_server_register_completion_queue(server->server, listener->queue.cq, NULL);
  }
}

static grpc_server *create_server(size_t max_message_bytes) {
  struct core_args args = {.count = 0};
  core_args_common(&args, max_message_bytes);
  core_args_add(&args, GRPC_ARG_ALLOW_REUSEPORT, 0); /* a second server on the port must fail */
  core_args_add(&args, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                CORE_KEEPALIVE_MS / 2);
  grpc_channel_args view = core_args_view(&args);
  return grpc_server_create(&view, NULL);
}

static bool listen_on(struct rpc_server *server, const char *address) {
  grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
  int port = grpc_server_add_http2_port(server->server, address, plain);
  grpc_server_credentials_release(plain);
  server->port = address_is_unix(address) ? 0 : port;
  return port != 0;
}

enum status rpc_server_create(struct rpc_server **out, const struct rpc_server_config *config,
                              struct error *error) {
  CHECK(config->num_queues >= 1, "%d queues", config->num_queues);
  *out = NULL;
  enum status status = address_prepare(config->address, error);
  if (status != STATUS_OK) return status;

  core_init();
  struct rpc_server *server = check_alloc(1, sizeof(*server));
  server->config = *config;
  server->config.address = NULL;
  server->stopped.run = stopped;
  server->server = create_server(config->max_message_bytes);
  create_queues(server);
  if (!listen_on(server, config->address)) {
    status = address_explain(config->address, error);
    stopped(&server->stopped, true);
    rpc_server_destroy(server);
    return status;
  }
  grpc_server_start(server->server);
  for (int i = 0; i < config->num_queues; i++) {
    CHECK(queue_hold(&server->listeners[i].queue), "a new queue has ended");
    arm(&server->listeners[i]);
  }
  *out = server;
  return STATUS_OK;
}

int rpc_server_port(const struct rpc_server *server) {
  return server->port;
}

int rpc_server_poll(struct rpc_server *server, int queue, int64_t deadline_us) {
  return queue_poll(&server->listeners[queue].queue, deadline_us);
}

void rpc_server_wake(struct rpc_server *server, int queue) {
  queue_wake(&server->listeners[queue].queue);
}

void rpc_server_shutdown(struct rpc_server *server) {
  grpc_server_shutdown_and_notify(server->server, server->listeners[0].queue.cq, &server->stopped);
}

void rpc_server_cancel_all(struct rpc_server *server) {
  grpc_server_cancel_all_calls(server->server);
}

void rpc_server_destroy(struct rpc_server *server) {
  grpc_server_destroy(server->server);
  for (int i = 0; i < server->config.num_queues; i++) queue_deinit(&server->listeners[i].queue);
  grpc_channel_destroy(server->lame);
  free(server->listeners);
  free(server);
  core_deinit();
}
