/* Run-time (external) errors: a status code for the program and a message for the user.
 *
 * Every function that can fail for a reason outside the program (a peer, a file, an option, a
 * message) returns an `enum status` and fills a `struct error` with a message: what was wrong,
 * where, and what to do. Programming errors are CHECK's (check.h); a device failure is fatal. The
 * three never mix. Thread: any. */
#ifndef ACORN_COMMON_BASE_STATUS_H
#define ACORN_COMMON_BASE_STATUS_H

/* X(name, sentence) */
#define STATUS_LIST(X)           \
  X(OK, "ok")                    \
  X(INVALID, "invalid argument") \
  X(NOT_FOUND, "not found")      \
  X(EXISTS, "already there")     \
  X(MISMATCH, "does not match")  \
  X(EXHAUSTED, "no room left")   \
  X(UNAVAILABLE, "unavailable")  \
  X(CORRUPT, "damaged data")     \
  X(IO, "input/output error")    \
  X(DONE, "done")

enum status {
#define STATUS_ENUM(name, sentence) STATUS_##name,
  STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
};

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((__format__(__printf__, text, first)))

/* The sentence that goes with a status. Plain data; the caller owns it. */
struct error {
  char text[1024];
};

/* The general sentence of a status ("invalid argument"). Never NULL. */
const char *status_name(enum status status);

/* Writes the sentence into `error` (may be NULL) and returns `status`, so that a failure is one
 * line: `return status_fail(error, STATUS_INVALID, "--port: %d is not in 1..65535", port);` */
MUST_CHECK enum status status_fail(struct error *error, enum status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

#endif
