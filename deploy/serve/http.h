/* The models over HTTP: the Open Inference Protocol's REST paths (/v2), TensorFlow Serving's (/v1),
 * and the metrics for Prometheus. By libmicrohttpd, in a thread of its own; a connection whose
 * request is being answered is suspended.
 * Upstream: serve.c. Downstream: service.h, request_json.h. Thread: main. */
#ifndef ACORN_DEPLOY_SERVE_HTTP_H
#define ACORN_DEPLOY_SERVE_HTTP_H

#include "common/base/token.h"
#include "deploy/serve/service.h"

struct http_options {
  const char *address; /* an IPv4 or IPv6 address */
  int port;            /* 0: the system chooses */
  int max_connections;
  struct token_file *tokens;      /* borrowed; NULL: none are asked for */
  const char *tls_cert, *tls_key; /* PEM, or "" */
};

struct http;

/* Errors: INVALID: not an address, a file of TLS; EXISTS: the port is in use; IO. Owner: the
 * caller, with http_stop, also after an error. */
MUST_CHECK enum status http_start(struct http **out, struct service *service,
                                  const struct http_options *options, struct error *error);
int http_port(const struct http *http);
/* No new connections from now on; those that there are end with their next response. */
void http_drain(struct http *http);
int http_connections(const struct http *http);
/* Every request is answered. Takes NULL. */
void http_stop(struct http *http);

#endif
