#include "common/base/check.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

enum { ALIGNMENT = 64 };

void check_failed(const char *file, int line, const char *condition, const char *format, ...) {
  // The message must not end up behind a live line.
  log_live("");

  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  fprintf(stderr, "%s:%d: CHECK(%s) failed: %s\n", file, line, condition, message);
  abort();
}

void check_give_up(const char *format, ...) {
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  log_live("");
  log_error("%s", message);
  _exit(EXIT_FAILURE);
}

char *check_copy(const char *text) {
  size_t bytes = strlen(text) + 1;
  return memcpy(check_alloc(bytes, 1), text, bytes);
}

void *check_alloc(size_t count, size_t size) {
  CHECK(size == 0 || count <= (SIZE_MAX - ALIGNMENT) / size,
        "%zu x %zu bytes is more than memory can address", count, size);

  // aligned_alloc wants a multiple of the alignment; an empty array still gets a pointer of its
  // own.
  size_t bytes = (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (bytes == 0) bytes = ALIGNMENT;
  void *memory = aligned_alloc(ALIGNMENT, bytes);
  if (!memory) check_give_up("out of memory: %zu bytes were asked for", bytes);
  return memset(memory, 0, bytes);
}
