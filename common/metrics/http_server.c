#include "common/metrics/http_server.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

enum { BACKLOG = 64, LIMIT_MS = 5000, HEAD_BYTES = 256, MAX_DISCARDED_BYTES = 1 << 20 };
// While others wait for a slot: to say a whole request, and to take the answer as well.
enum { REQUEST_MS = 100, ANSWER_MS = 1000 };

struct connection {
  struct http_server *server;
  uv_tcp_t tcp;
  uv_timer_t limit;
  uv_write_t write;
  uv_shutdown_t shutdown;
  int open_handles; // 0: free
  uint64_t began_ms;
  bool answered;
  bool heard_all; // the peer says nothing more; it may still listen
  size_t bytes;   // of the request; once it is answered, of what has been discarded
  char request[HTTP_MAX_REQUEST_BYTES];
  char head[HEAD_BYTES];
  char *body;
};

struct http_server {
  struct http_server_config config; // read-only after start
  uv_tcp_t listener;
  int port;
  int open_handles; // of the listener and all connections
  bool waiting;     // a connection has come that no slot was free for
  bool stopping;
  struct connection connection[HTTP_MAX_CONNECTIONS];
};

/* ---- the end of a connection */

static void accept_one(struct http_server *server);

static void on_closed(uv_handle_t *handle) {
  struct connection *connection = handle->data;
  struct http_server *server = connection->server;
  server->open_handles--;
  if (--connection->open_handles > 0) return;
  if (server->waiting && !server->stopping) accept_one(server);
}

static void end(struct connection *connection) {
  uv_handle_t *handles[] = {(uv_handle_t *)&connection->tcp, (uv_handle_t *)&connection->limit};
  for (int i = 0; i < 2; i++)
    if (!uv_is_closing(handles[i])) uv_close(handles[i], on_closed);
}

static void on_limit(uv_timer_t *limit) {
  end(limit->data);
}

/* ---- the answer */

static const char *reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Error";
  }
}

static void on_shut_down(uv_shutdown_t *shutdown, int status) {
  if (status != 0 && status != UV_ECANCELED) end(shutdown->data);
}

// The peer closes first: to close on bytes that are still coming would take the answer away from
// it.
static void on_written(uv_write_t *write, int status) {
  struct connection *connection = write->data;
  free(connection->body);
  connection->body = NULL;
  if (status == UV_ECANCELED) return;
  if (connection->heard_all) {
    end(connection);
    return;
  }
  connection->shutdown.data = connection;
  if (status != 0 ||
      uv_shutdown(&connection->shutdown, (uv_stream_t *)&connection->tcp, on_shut_down) != 0)
    end(connection);
}

// Takes the response's body.
static void respond(struct connection *connection, const struct http_response *response,
                    bool head_only) {
  int length =
      snprintf(connection->head, HEAD_BYTES,
               "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
               "%sConnection: close\r\n\r\n",
               response->status, reason_of(response->status), response->type, response->bytes,
               response->status == 405   ? "Allow: GET, HEAD\r\n"
               : response->status == 401 ? "WWW-Authenticate: Bearer\r\n"
                                         : "");
  CHECK(length < HEAD_BYTES, "the head of a response of type %s", response->type);
  connection->answered = true;
  connection->bytes = 0;
  connection->body = response->body;
  uv_buf_t pieces[] = {uv_buf_init(connection->head, (unsigned)length),
                       uv_buf_init(response->body, (unsigned)response->bytes)};
  connection->write.data = connection;
  int failed = uv_write(&connection->write, (uv_stream_t *)&connection->tcp, pieces,
                        head_only || response->bytes == 0 ? 1 : 2, on_written);
  if (!failed) return;
  free(connection->body);
  connection->body = NULL;
  end(connection);
}

static void refuse(struct connection *connection, int status, const char *sentence) {
  struct http_response response = {status, "text/plain", strdup(sentence), strlen(sentence)};
  CHECK(response.body, "out of memory for a sentence");
  respond(connection, &response, false);
}

static void answer(struct connection *connection, const struct http_request *request) {
  const struct http_server_config *config = &connection->server->config;
  bool head_only = http_request_is_method(request, "HEAD");
  if (!head_only && !http_request_is_method(request, "GET")) {
    refuse(connection, 405, "only GET and HEAD are answered here\n");
    return;
  }
  struct http_response response = config->answer(config->context, request);
  respond(connection, &response, head_only);
}

/* ---- the request */

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room) {
  struct connection *connection = handle->data;
  (void)suggested;
  // What comes after the request is not read but has to go somewhere.
  size_t used = connection->answered ? 0 : connection->bytes;
  *room = uv_buf_init(connection->request + used, (unsigned)(HTTP_MAX_REQUEST_BYTES - used));
}

static void on_bytes(uv_stream_t *stream, ssize_t count, const uv_buf_t *room) {
  struct connection *connection = stream->data;
  (void)room;
  if (count < 0) {
    connection->heard_all = true;
    if (count != UV_EOF || !connection->body) end(connection);
    return;
  }
  connection->bytes += (size_t)count;
  if (connection->answered) {
    if (connection->bytes > MAX_DISCARDED_BYTES) end(connection);
    return;
  }
  struct http_request request;
  switch (http_request_parse(&request, connection->request, connection->bytes)) {
    case HTTP_PARTIAL:
      if (connection->bytes == HTTP_MAX_REQUEST_BYTES)
        refuse(connection, 431, "the request is too long\n");
      return;
    case HTTP_WHOLE:
      answer(connection, &request);
      return;
    case HTTP_BAD:
      refuse(connection, 400, "this is a port for HTTP/1 requests\n");
      return;
  }
}

/* ---- connections */

static struct connection *free_connection(struct http_server *server) {
  for (int i = 0; i < HTTP_MAX_CONNECTIONS; i++)
    if (server->connection[i].open_handles == 0) return &server->connection[i];
  return NULL;
}

// When it has to make room for one that waits.
static uint64_t due_ms(const struct connection *connection) {
  return connection->began_ms + (connection->answered ? ANSWER_MS : REQUEST_MS);
}

// No slot is free: the connection that is due first makes room then.
static void make_room(struct http_server *server) {
  struct connection *first = &server->connection[0];
  for (int i = 0; i < HTTP_MAX_CONNECTIONS; i++) {
    struct connection *connection = &server->connection[i];
    if (uv_is_closing((uv_handle_t *)&connection->tcp)) return; // soon
    if (due_ms(connection) < due_ms(first)) first = connection;
  }
  uint64_t now_ms = uv_now(server->listener.loop), due = due_ms(first);
  uint64_t left_ms = due > now_ms ? due - now_ms : 0;
  if (left_ms < uv_timer_get_due_in(&first->limit))
    uv_timer_start(&first->limit, on_limit, left_ms, 0);
}

// Takes the connection that waits, or leaves it in the system's queue until a slot is free.
static void accept_one(struct http_server *server) {
  struct connection *connection = free_connection(server);
  server->waiting = !connection;
  if (!connection) {
    make_room(server);
    return;
  }
  connection->answered = connection->heard_all = false;
  connection->bytes = 0;
  connection->began_ms = uv_now(server->listener.loop);
  connection->server = server;
  connection->tcp.data = connection->limit.data = connection;
  uv_tcp_init(server->listener.loop, &connection->tcp);
  uv_timer_init(server->listener.loop, &connection->limit);
  connection->open_handles = 2;
  server->open_handles += 2;
  uint64_t limit_ms = (uint64_t)(server->config.limit_ms ? server->config.limit_ms : LIMIT_MS);
  uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
  if (uv_accept((uv_stream_t *)&server->listener, stream) != 0 ||
      uv_timer_start(&connection->limit, on_limit, limit_ms, 0) != 0 ||
      uv_read_start(stream, on_room, on_bytes) != 0)
    end(connection);
}

static void on_connection(uv_stream_t *listener, int status) {
  if (status == 0) accept_one(listener->data);
}

static void on_listener_closed(uv_handle_t *handle) {
  ((struct http_server *)handle->data)->open_handles--;
}

/* ---- start and stop */

static enum status read_address(struct sockaddr_storage *out, const char *address, int port,
                                struct error *error) {
  if (uv_ip4_addr(address, port, (struct sockaddr_in *)out) == 0 ||
      uv_ip6_addr(address, port, (struct sockaddr_in6 *)out) == 0)
    return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "'%.200s' is no IP address; one is 127.0.0.1 (this machine alone), 0.0.0.0 "
                     "or ::1",
                     address);
}

static enum status listen_at(struct http_server *server, struct error *error) {
  const struct http_server_config *config = &server->config;
  struct sockaddr_storage address;
  int bytes = sizeof(address);
  enum status status = read_address(&address, config->address, config->port, error);
  if (status != STATUS_OK) return status;
  int failed = uv_tcp_bind(&server->listener, (struct sockaddr *)&address, 0);
  if (!failed) failed = uv_listen((uv_stream_t *)&server->listener, BACKLOG, on_connection);
  if (!failed) failed = uv_tcp_getsockname(&server->listener, (struct sockaddr *)&address, &bytes);
  if (failed == UV_EADDRINUSE)
    return status_fail(error, STATUS_EXISTS, "port %d of %s is in use by another program",
                       config->port, config->address);
  if (failed)
    return status_fail(error, STATUS_IO, "cannot listen on port %d of %s: %s", config->port,
                       config->address, uv_strerror(failed));
  // The port stands at the same place for both families.
  server->port = ntohs(((struct sockaddr_in *)&address)->sin_port);
  return STATUS_OK;
}

enum status http_server_start(struct http_server **out, uv_loop_t *loop,
                              const struct http_server_config *config, struct error *error) {
  struct http_server *server = check_alloc(1, sizeof(*server));
  server->config = *config;
  server->listener.data = server;
  server->open_handles = 1;
  uv_tcp_init(loop, &server->listener);
  enum status status = listen_at(server, error);
  if (status != STATUS_OK) {
    http_server_stop(server);
    return status;
  }
  signal(SIGPIPE, SIG_IGN);
  *out = server;
  return STATUS_OK;
}

int http_server_port(const struct http_server *server) {
  return server->port;
}

void http_server_stop(struct http_server *server) {
  if (!server) return;
  server->stopping = true;
  uv_close((uv_handle_t *)&server->listener, on_listener_closed);
  for (int i = 0; i < HTTP_MAX_CONNECTIONS; i++)
    if (server->connection[i].open_handles > 0) end(&server->connection[i]);
  while (server->open_handles > 0) uv_run(server->listener.loop, UV_RUN_ONCE);
  free(server);
}
