/* A small HTTP server for a scraper and a browser: GET and HEAD, one request to a connection.
 *
 * Whoever connects, the loop that runs it is not held up: a fixed number of connections (others
 * wait in the system's queue), a bound on the request's bytes, a time limit on each connection
 * from its first moment to its last. While another one waits the limit is shorter, shortest for
 * those that have not said what they want: silent peers do not keep a scraper out.
 * Upstream: learner/report/metrics_port.c. Thread: the loop's.
 * Invariant: a connection's slot is free when both of its handles are closed, not before. */
#ifndef ACORN_COMMON_METRICS_HTTP_SERVER_H
#define ACORN_COMMON_METRICS_HTTP_SERVER_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/base/status.h"
#include "common/metrics/http_request.h"

enum { HTTP_MAX_CONNECTIONS = 16, HTTP_MAX_REQUEST_BYTES = 8192 };

struct http_response {
  int status;       /* 200, 401, 404 */
  const char *type; /* of the body: "text/plain" */
  char *body;       /* Owner: taken over, with free(); NULL: none */
  size_t bytes;
};

struct http_server_config {
  const char *address; /* an IPv4 or IPv6 address */
  int port;            /* 0: the system chooses */
  int64_t limit_ms;    /* for a connection in all; 0: 5,000 */
  /* The answer to a GET or a HEAD. */
  struct http_response (*answer)(void *context, const struct http_request *request);
  void *context;
};

struct http_server;

/* Listens. Ignores SIGPIPE from here on: a peer that has gone must not end the process.
 * Errors: INVALID: not an address; EXISTS: the port is in use; IO. */
MUST_CHECK enum status http_server_start(struct http_server **out, uv_loop_t *loop,
                                         const struct http_server_config *config,
                                         struct error *error);
int http_server_port(const struct http_server *server);

/* Ends all connections and frees the server; takes NULL. Runs the loop meanwhile, so it is not for
 * a callback of it. */
void http_server_stop(struct http_server *server);

#endif
