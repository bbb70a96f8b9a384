#include "common/rpc/server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/host_port.h"
#include "common/rpc/acceptor.h"
#include "common/rpc/address.h"
#include "common/rpc/core.h"
#include "common/rpc/credentials_grpc.h"
#include "common/rpc/queue.h"
#include "common/rpc/stream.h"

enum {
  IDLE_CONNECTION_MS = 60000,
  HANDSHAKE_MS = 20000,
  PATIENCE_MS = 30000,
};

/* An accept that is always armed: one on each queue for any call, and one on the control queue for
 * each method of its own. */
struct accept {
  struct op accepted;
  struct rpc_server *server;
  struct stream_home *listener;
  const struct rpc_method *method; /* of the control queue, registered; else NULL */
  void *registered;
  /* written by gRPC until the accept's event */
  grpc_call *call;
  grpc_call_details details;
  gpr_timespec deadline;
  grpc_metadata_array metadata;
};

struct rpc_server {
  struct rpc_server_config config; /* read-only; .address is not kept */
  grpc_server *server;
  struct stream_home
      *listeners;         /* (num_listeners): the control queue is the last, if there is one */
  struct accept *accepts; /* (num_accepts) */
  int num_listeners, num_accepts;
  struct acceptor *acceptor;
  atomic_int open_calls;
  atomic_int strangers; /* calls refused for their credentials */
  _Atomic int64_t next_stranger_us;
  struct credentials_port tls[ADDRESS_MAX_SOCKETS];
  int port;
  struct op stopped; /* gRPC's shutdown is complete */
};

/* ---- accepting */

static void arm(struct accept *accept) {
  grpc_completion_queue *cq = accept->listener->queue.cq;
  grpc_server *server = accept->server->server;
  grpc_call_error result;
  grpc_metadata_array_init(&accept->metadata);
  grpc_call_details_init(&accept->details);
  if (accept->method)
    result = grpc_server_request_registered_call(server, accept->registered, &accept->call,
                                                 &accept->deadline, &accept->metadata, NULL, cq, cq,
                                                 &accept->accepted);
  else
    result = grpc_server_request_call(server, &accept->call, &accept->details, &accept->metadata,
                                      cq, cq, &accept->accepted);
  CHECK(result == GRPC_CALL_OK, "%s", grpc_call_error_to_string(result));
}

static void disarm(struct accept *accept) {
  grpc_call_details_destroy(&accept->details);
  grpc_metadata_array_destroy(&accept->metadata);
}

static const struct rpc_method *find_method(const struct rpc_server *server, grpc_slice path) {
  for (int i = 0; i < server->config.num_methods; i++)
    if (grpc_slice_str_cmp(path, server->config.methods[i].path) == 0)
      return &server->config.methods[i];
  return NULL;
}

static void log_stranger(struct rpc_server *server, grpc_call *call) {
  atomic_fetch_add(&server->strangers, 1);
  if (!core_may_log(&server->next_stranger_us, CORE_LOG_PAUSE_US)) return;
  char peer[RPC_PEER_BYTES];
  core_peer_name(peer, call);
  log_warn("%d calls without a valid token were refused with UNAUTHENTICATED, the last one from %s",
           atomic_load(&server->strangers), peer);
}

/* With a status, without more ado: nothing of it is received or kept. */
static void refuse(grpc_call *call, enum rpc_code code, const char *text) {
  grpc_call_cancel_with_status(call, (grpc_status_code)code, text, NULL);
  grpc_call_unref(call);
}

static void open_or_refuse(struct rpc_server *server, grpc_call *call,
                           const struct rpc_method *method, const char *stranger,
                           struct stream_home *listener) {
  int max_calls = server->config.max_calls;
  if (stranger) {
    log_stranger(server, call);
    refuse(call, RPC_UNAUTHENTICATED, stranger);
  } else if (!method) {
    refuse(call, RPC_UNIMPLEMENTED, "no such method here");
  } else if (max_calls && atomic_load(&server->open_calls) >= max_calls) {
    refuse(call, RPC_UNAVAILABLE, "too many calls are open here");
  } else {
    stream_open(call, method, listener);
  }
}

static void accepted(void *owner, bool ok) {
  struct accept *accept = owner;
  struct stream_home *listener = accept->listener;
  if (!ok) { /* shutting down: there is no call */
    disarm(accept);
    queue_release(&listener->queue);
    return;
  }
  grpc_call *call = accept->call;
  const struct rpc_method *method =
      accept->method ? accept->method : find_method(accept->server, accept->details.method);
  const char *stranger = credentials_refuse(accept->server->config.credentials, &accept->metadata,
                                            method && method->of_operator);
  disarm(accept);
  arm(accept);
  open_or_refuse(accept->server, call, method, stranger, listener);
}

/* ---- life */

static void stopped(void *owner, bool ok) {
  (void)ok;
  struct rpc_server *server = owner;
  for (int i = 0; i < server->num_listeners; i++) queue_release(&server->listeners[i].queue);
}

static int count_control_methods(const struct rpc_server_config *config) {
  int count = 0;
  for (int i = 0; i < config->num_methods; i++) count += config->methods[i].control;
  return count;
}

static void create_queues(struct rpc_server *server) {
  bool control = count_control_methods(&server->config) > 0;
  server->num_listeners = server->config.num_queues + control;
  server->listeners = check_alloc((size_t)server->num_listeners, sizeof(*server->listeners));
  for (int i = 0; i < server->num_listeners; i++) {
    struct stream_home *listener = &server->listeners[i];
    listener->index = i;
    listener->open_calls = &server->open_calls;
    listener->patience_us = (int64_t)server->config.patience_ms * 1000;
    listener->anonymous = server->config.anonymous;
    queue_init(&listener->queue, i < server->config.num_queues);
    grpc_server_register_completion_queue(server->server, listener->queue.cq, NULL);
  }
}

static struct accept *add_accept(struct rpc_server *server, int listener) {
  struct accept *accept = &server->accepts[server->num_accepts++];
  accept->accepted = (struct op){accepted, accept};
  accept->server = server;
  accept->listener = &server->listeners[listener];
  return accept;
}

/* gRPC wants to know its methods before it starts. */
static void create_accepts(struct rpc_server *server) {
  const struct rpc_server_config *config = &server->config;
  size_t count = (size_t)(config->num_queues + count_control_methods(config));
  server->accepts = check_alloc(count, sizeof(*server->accepts));
  for (int i = 0; i < config->num_queues; i++) add_accept(server, i);
  for (int i = 0; i < config->num_methods; i++) {
    if (!config->methods[i].control) continue;
    struct accept *accept = add_accept(server, config->num_queues);
    accept->method = &config->methods[i];
    accept->registered = grpc_server_register_method(server->server, config->methods[i].path, NULL,
                                                     GRPC_SRM_PAYLOAD_NONE, 0);
    CHECK(accept->registered, "two methods are named %s", config->methods[i].path);
  }
}

static grpc_server *create_server(const struct rpc_server_config *config) {
  struct core_args args = {.count = 0};
  core_args_common(&args, config->max_message_bytes);
  core_args_add(&args, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                CORE_KEEPALIVE_MS / 2);
  core_args_add(&args, GRPC_ARG_MAX_CONNECTION_IDLE_MS, IDLE_CONNECTION_MS);
  core_args_add(&args, GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS);
  core_args_add(&args, GRPC_ARG_ALLOW_REUSEPORT, 0); /* two learners on a port must fail */
  if (config->max_connection_calls)
    core_args_add(&args, GRPC_ARG_MAX_CONCURRENT_STREAMS, config->max_connection_calls);
  grpc_channel_args view = core_args_view(&args);
  return grpc_server_create(&view, NULL);
}

/* gRPC listens where these sockets do, which are closed: it gives TLS to no connection that was
 * accepted elsewhere. A port of 0 it chooses with the first, which must succeed. */
static enum status listen_with_tls(struct rpc_server *server, const struct address_sockets *sockets,
                                   const struct rpc_server_config *config, struct error *error) {
  server->port = atoi(strrchr(config->address, ':') + 1); /* as address_listen has checked */
  for (int i = 0; i < sockets->count; i++) {
    char place[ADDRESS_NUMERIC_BYTES];
    address_numeric(place, sockets->fd[i], server->port);
    close(sockets->fd[i]);
    if (i > 0 && !server->port) continue;
    grpc_server_credentials *security = credentials_server(&server->tls[i], config->credentials);
    int port = grpc_server_add_http2_port(server->server, place, security);
    grpc_server_credentials_release(security);
    if (i == 0) server->port = port;
  }
  core_log_connections();
  if (server->port) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--tls_cert and --tls_key: they are not a certificate and the private key "
                     "that belongs to it; or the file of --tls_ca is damaged; or the address %s "
                     "was taken meanwhile",
                     config->address);
}

enum status rpc_server_create(struct rpc_server **out, const struct rpc_server_config *config,
                              struct error *error) {
  CHECK(config->num_queues >= 1, "%d queues", config->num_queues);
  *out = NULL;
  struct address_sockets sockets;
  enum status status = address_listen(&sockets, config->address, error);
  if (status != STATUS_OK) return status;

  core_init();
  struct rpc_server *server = check_alloc(1, sizeof(*server));
  server->config = *config;
  server->config.address = NULL;
  if (!config->patience_ms) server->config.patience_ms = PATIENCE_MS;
  server->stopped = (struct op){stopped, server};
  server->server = create_server(config);
  server->port = sockets.port;
  bool has_tls = credentials_have_tls(config->credentials) && !host_port_path(config->address);
  if (has_tls) {
    status = listen_with_tls(server, &sockets, config, error);
    if (status != STATUS_OK) {
      grpc_server_destroy(server->server);
      free(server);
      core_deinit();
      return status;
    }
  }
  create_queues(server);
  create_accepts(server);
  grpc_server_start(server->server);
  for (int i = 0; i < server->num_accepts; i++) {
    CHECK(queue_hold(&server->accepts[i].listener->queue), "a new queue has ended");
    arm(&server->accepts[i]);
  }
  if (!has_tls) server->acceptor = acceptor_start(server->server, &sockets);
  *out = server;
  return STATUS_OK;
}

int rpc_server_max_connections(int files) {
  int connections = acceptor_room() - files;
  return connections > 0 ? connections : 0;
}

int rpc_server_port(const struct rpc_server *server) {
  return server->port;
}

int rpc_server_poll(struct rpc_server *server, int queue, int64_t deadline_us) {
  struct stream_home *home = &server->listeners[queue];
  if (home->first) stream_expire(home, clock_now_us());
  int events = queue_poll(&home->queue, deadline_us);
  if (events == 0 && deadline_us) home->behind_us = 0;
  return events;
}

void rpc_server_shutdown(struct rpc_server *server) {
  acceptor_stop(server->acceptor);
  server->acceptor = NULL;
  grpc_server_shutdown_and_notify(server->server, server->listeners[0].queue.cq, &server->stopped);
}

void rpc_server_cancel_all(struct rpc_server *server) {
  grpc_server_cancel_all_calls(server->server);
}

void rpc_server_destroy(struct rpc_server *server) {
  grpc_server_destroy(server->server);
  for (int i = 0; i < server->num_listeners; i++) queue_deinit(&server->listeners[i].queue);
  free(server->accepts);
  free(server->listeners);
  free(server);
  core_deinit();
}
