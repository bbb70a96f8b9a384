/* Files: how many may be open (ulimit -n), folders that are made, and what is safe to read.
 * Upstream: the mains, common/rpc. Thread: any. */
#ifndef ACORN_COMMON_BASE_FILES_H
#define ACORN_COMMON_BASE_FILES_H

#include <stdio.h>

#include "common/base/status.h"

/* Raises the limit as far as the system allows, and returns it; INT_MAX: there is none. */
int files_limit(void);

/* How many of `limit` files a process may keep open. The others are a reserve for files that are
 * open for a moment: checkpoints, logs, host names, scrapes of metrics. */
int files_room(int limit);

/* `who` ("the learner") keeps `own` files open and so many connections.
 * Errors: EXHAUSTED: the limit is too low; names it and what is needed. */
MUST_CHECK enum status files_check(const char *who, int own, int connections, struct error *error);

/* Opens a file that somebody else may have put there, to be read from front to back: a regular one
 * only, since a FIFO would be waited for and a device may have no end. Never waits. Returns -1 with
 * errno set, ENXIO where it is no regular file, and the reason in *why. */
int files_open_regular(const char *path, const char **why);
/* The same as a stream; NULL. */
FILE *files_read(const char *path, const char **why);

/* A new file in the place of what is at `path`, which may be no file: NULL with errno set. */
FILE *files_create(const char *path);

/* What is to stand in the file at `path`, which stays as it is until files_replace: NULL with errno
 * set. */
FILE *files_begin(const char *path);
/* Closes it, which may be NULL, and puts it there. Errors: IO: the file is as it was. */
MUST_CHECK enum status files_replace(FILE *file, const char *path, struct error *error);

/* The path of the program that runs, (PATH_MAX); "" with errno set where it cannot be read. */
void files_program(char *path);

/* mkdir -p. Errors: IO. */
MUST_CHECK enum status files_make_folders(const char *path, struct error *error);

#endif
