// Any bytes are a request, the beginning of one, or none; and more bytes never take back what was
// said of fewer.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/metrics/http_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_within(const char *bytes, size_t size, const char *part, size_t count) {
  CHECK(part >= bytes && part + count <= bytes + size, "it points outside");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *bytes = check_alloc(size + 1, 1);
  memcpy(bytes, data, size);
  enum http_parse last = HTTP_PARTIAL;
  struct http_request request;
  // In memory of its exact size, so that the sanitizer sees a read past the end.
  for (size_t count = 0; count <= size; count += 1 + count / 64) {
    char *part = malloc(count ? count : 1);
    memcpy(part, bytes, count);
    enum http_parse now = http_request_parse(&request, part, count);
    CHECK(last == HTTP_PARTIAL || now == last, "%d became %d at %zu bytes", (int)last, (int)now,
          count);
    if (now == HTTP_WHOLE) {
      check_within(part, count, request.method, request.method_bytes);
      check_within(part, count, request.path, request.path_bytes);
      if (request.authorization)
        check_within(part, count, request.authorization, request.authorization_bytes);
      CHECK(request.path[0] == '/', "a path");
      http_request_is(&request, "/metrics");
      http_request_is_method(&request, "GET");
    }
    last = now;
    free(part);
  }
  free(bytes);
  return 0;
}
