/* Programming errors: CHECK, always compiled in, prints expression, file and line, and aborts. */
#ifndef ACORN_COMMON_BASE_CHECK_H
#define ACORN_COMMON_BASE_CHECK_H

#include <stddef.h>

#include "common/base/status.h"

#define CHECK(condition, ...)                                    \
  do {                                                           \
    if (__builtin_expect(!(condition), 0))                       \
      check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__); \
  } while (0)

/* Prints "FILE:LINE: CHECK(condition) failed: message" to stderr and aborts. */
_Noreturn void check_failed(const char *file, int line, const char *condition, const char *format,
                            ...) PRINTF_LIKE(4, 5);

/* Unrecoverable resource exhaustion (memory, threads): logs the message as an error and exits with
 * code 1, without a core dump. A supervisor may restart the process. */
_Noreturn void check_give_up(const char *format, ...) PRINTF_LIKE(1, 2);

/* Zeroed memory of count x size bytes, aligned to 64. Gives up when there is none.
 * Owner: the caller, with free(). */
void *check_alloc(size_t count, size_t size);

/* A copy of the text, likewise. */
char *check_copy(const char *text);

#endif
