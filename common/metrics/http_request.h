/* Reads the head of an HTTP/1 request: what a scraper or a browser sends to a metrics port.
 *
 * The bytes are untrusted. Nothing is copied: what is read points into them.
 * Upstream: common/metrics/http_server.c. Thread: any. */
#ifndef ACORN_COMMON_METRICS_HTTP_REQUEST_H
#define ACORN_COMMON_METRICS_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

enum http_parse {
  HTTP_PARTIAL, /* more bytes are needed */
  HTTP_WHOLE,   /* the head is there */
  HTTP_BAD,     /* it is no such request, whatever follows */
};

struct http_request {
  const char *method; /* "GET", not terminated */
  size_t method_bytes;
  const char *path; /* "/metrics", without what follows a '?'; not terminated */
  size_t path_bytes;
  const char *authorization; /* the header of that name; not terminated; NULL: there is none */
  size_t authorization_bytes;
};

/* Reads what has come so far. `request` is filled when it is HTTP_WHOLE. */
enum http_parse http_request_parse(struct http_request *request, const char *bytes, size_t count);

bool http_request_is(const struct http_request *request, const char *path);
bool http_request_is_method(const struct http_request *request, const char *method);

#endif
