/* Run-time (external) errors: a status code for the program and a message for the user.
 *
 * Every function that can fail for a reason outside the program (a peer, a file, an option, a
 * message) returns an `enum status` and fills a `struct error` with a message: what was wrong,
 * where, and what to do. Programming errors are CHECK's (check.h); a device failure is fatal. The
 * three never mix. Thread: any. */
#ifndef ACORN_COMMON_BASE_STATUS_H
#define ACORN_COMMON_BASE_STATUS_H

enum status {
  STATUS_OK,
  STATUS_INVALID, /* an argument */
  STATUS_NOT_FOUND,
  STATUS_EXISTS, /* already */
  STATUS_MISMATCH,
  STATUS_EXHAUSTED, /* no room is left */
  STATUS_UNAVAILABLE,
  STATUS_CORRUPT, /* damaged data */
  STATUS_IO,
  STATUS_DONE
};

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((__format__(__printf__, text, first)))

/* The sentence that goes with a status. Plain data; the caller owns it. */
struct error {
  char text[1024];
};

/* Writes the sentence into `error` (may be NULL) and returns `status`, so that a failure is one
 * line: `return status_fail(error, STATUS_INVALID, "--port: %d is not in 1..65535", port);` */
MUST_CHECK enum status status_fail(struct error *error, enum status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

#endif
