/* The observations of one stream in memory that two processes of one host share.
 *
 * The learner makes it, an actor opens it by the learner's process id and file descriptor. It has
 * no name in any folder and ends with the last of the two processes. Its size is sealed, so that
 * neither process can make the other fault (SIGBUS) by truncating it.
 * Upstream: learner/serve/leases.c, actor/link.c. Thread: one at a time.
 * Invariant: the actor writes only between the learner's answer and its next message, the learner
 * reads only between that message and its answer; the system calls of the messages order the two.
 * So one row for each environment is enough. A faulty actor may write at any time: the learner
 * copies the bytes once and checks the copy. */
#ifndef ACORN_COMMON_BASE_SHARED_ROWS_H
#define ACORN_COMMON_BASE_SHARED_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

/* Plain data; zeros: there is none. */
struct shared_rows {
  uint8_t *data; /* (bytes), mapped; NULL: none */
  size_t bytes;
  int file; /* the maker's, until the other process has opened it; 0: closed */
};

/* Makes memory of zeros, to be read, with all its pages. `id`, a random number, is how the other
 * process knows it. Errors: EXHAUSTED; then there is none. */
MUST_CHECK enum status shared_rows_create(struct shared_rows *rows, size_t bytes, uint64_t id,
                                          struct error *error);

/* Opens, to be written, what process `process` has made as its descriptor `file`. Another file is
 * never mapped, whatever the numbers mean here: in another container or on another host they name
 * other things. It is opened, without effect, only if the descriptor changes hands meanwhile.
 * Errors: NOT_FOUND, whose text does not have the numbers; then there is none. */
MUST_CHECK enum status shared_rows_open(struct shared_rows *rows, uint32_t process, uint32_t file,
                                        size_t bytes, uint64_t id, struct error *error);

/* The other process has it open, or never will: the descriptor is free, the memory stays. */
void shared_rows_close_file(struct shared_rows *rows);

/* Ends it on this side. May be called when there is none. */
void shared_rows_deinit(struct shared_rows *rows);

#endif
