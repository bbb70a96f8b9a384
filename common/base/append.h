/* Appends to a file all bytes or none, so that a full disk never leaves half a record.
 * Upstream: metrics files. Thread: any, one at a time for a file. */
#ifndef ACORN_COMMON_BASE_APPEND_H
#define ACORN_COMMON_BASE_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes at `end`, which is the end of the file. False with errno set (ENOSPC, EFBIG ...): the file
 * is cut back to `end`. */
bool append_whole(int fd, const void *bytes, size_t count, off_t end);

#endif
