#include "common/metrics/http_request.h"

#include <string.h>
#include <strings.h>

enum { METHOD_BYTES = 16 };

// A line without its end, and where the next one begins; false if its end is not there.
static bool take_line(const char **line, size_t *length, const char **next, const char *end) {
  const char *newline = memchr(*next, '\n', (size_t)(end - *next));
  if (!newline) return false;
  *line = *next;
  *length = (size_t)(newline - *next);
  if (*length > 0 && newline[-1] == '\r') --*length;
  *next = newline + 1;
  return true;
}

static bool is_upper(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (text[i] < 'A' || text[i] > 'Z') return false;
  return length > 0;
}

static bool is_visible(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (text[i] <= ' ' || text[i] > '~') return false;
  return length > 0;
}

// "HTTP/1.0", "HTTP/1.1" and what may come between them and 2.
static bool is_version(const char *text, size_t length) {
  return length == 8 && memcmp(text, "HTTP/1.", 7) == 0 && text[7] >= '0' && text[7] <= '9';
}

// "GET /metrics?x HTTP/1.1".
static bool read_request_line(struct http_request *request, const char *line, size_t length) {
  const char *end = line + length, *space = memchr(line, ' ', length);
  if (!space) return false;
  const char *target = space + 1;
  const char *space2 = memchr(target, ' ', (size_t)(end - target));
  if (!space2) return false;
  size_t target_bytes = (size_t)(space2 - target);
  const char *query = memchr(target, '?', target_bytes);
  *request = (struct http_request){.method = line,
                                   .method_bytes = (size_t)(space - line),
                                   .path = target,
                                   .path_bytes = query ? (size_t)(query - target) : target_bytes};
  return is_upper(line, request->method_bytes) && is_visible(target, target_bytes) &&
         target[0] == '/' && is_version(space2 + 1, (size_t)(end - space2 - 1));
}

// "Name: value". A line that goes on from the one before it is obsolete and refused.
static bool is_header(const char *line, size_t length) {
  const char *colon = memchr(line, ':', length);
  return colon && is_visible(line, (size_t)(colon - line)) && !memchr(line, '\0', length);
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

static void take_authorization(struct http_request *request, const char *line, size_t length) {
  static const char name[] = "authorization:";
  const size_t name_bytes = sizeof(name) - 1;
  if (length < name_bytes || strncasecmp(line, name, name_bytes) != 0) return;
  const char *value = line + name_bytes, *end = line + length;
  while (value < end && is_blank(*value)) value++;
  while (end > value && is_blank(end[-1])) end--;
  request->authorization = value;
  request->authorization_bytes = (size_t)(end - value);
}

// Whether it can still become a request: what speaks another protocol is not waited for.
static bool may_begin(const char *bytes, size_t count) {
  const char *space = memchr(bytes, ' ', count);
  size_t method = space ? (size_t)(space - bytes) : count;
  return count == 0 || (method <= METHOD_BYTES && is_upper(bytes, method));
}

enum http_parse http_request_parse(struct http_request *request, const char *bytes, size_t count) {
  const char *next = bytes, *end = bytes + count, *line;
  size_t length;
  struct http_request read;
  if (!may_begin(bytes, count)) return HTTP_BAD;
  if (!take_line(&line, &length, &next, end)) return HTTP_PARTIAL;
  if (!read_request_line(&read, line, length)) return HTTP_BAD;
  while (take_line(&line, &length, &next, end)) {
    if (length == 0) {
      *request = read;
      return HTTP_WHOLE;
    }
    if (!is_header(line, length)) return HTTP_BAD;
    take_authorization(&read, line, length);
  }
  return HTTP_PARTIAL;
}

static bool is(const char *text, size_t bytes, const char *word) {
  return bytes == strlen(word) && memcmp(text, word, bytes) == 0;
}

bool http_request_is(const struct http_request *request, const char *path) {
  return is(request->path, request->path_bytes, path);
}

bool http_request_is_method(const struct http_request *request, const char *method) {
  return is(request->method, request->method_bytes, method);
}
