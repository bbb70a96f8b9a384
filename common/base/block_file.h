/* Files that are too large for memory: written and read from front to back, with checksums.
 *
 * Layout (little-endian): blocks of BLOCK_FILE_BYTES bytes of content, the last one shorter; behind
 * each a u32, the crc32c of all content up to there. So a reader uses no byte that was not checked,
 * and finds blocks that are missing, doubled or in another order.
 * Upstream: learner/run/run_replay.c, learner/experience/{source,pages_file}.h.
 * Thread: one at a time. Memory: one block each, allocated by create. */
#ifndef ACORN_COMMON_BASE_BLOCK_FILE_H
#define ACORN_COMMON_BASE_BLOCK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum { BLOCK_FILE_BYTES = 1 << 20 };

/* ---- writing: begin, put, flush, end; or drop, at any time */

struct block_writer;
struct block_writer *block_writer_create(void);
/* Drops a file that was not ended. */
void block_writer_destroy(struct block_writer *writer);

/* Opens a new file, in the place of what is at `path`. cancelled, asked before each block, ends the
 * writing early; may be NULL. Errors: IO. */
MUST_CHECK enum status block_writer_begin(struct block_writer *writer, const char *path,
                                          bool (*cancelled)(void *context), void *context,
                                          struct error *error);
/* Appends to the content. Returns false once something has failed: flush has the reason. */
bool block_writer_put(struct block_writer *writer, const void *data, size_t bytes);
/* The content is complete: writes what is left of it. Errors: IO, the first one since begin; DONE:
 * it was cancelled. The file is gone then. */
MUST_CHECK enum status block_writer_flush(struct block_writer *writer, struct error *error);
/* After flush: brings the file to the disk and closes it. Errors: IO; the file is gone then. */
MUST_CHECK enum status block_writer_end(struct block_writer *writer, struct error *error);
/* Closes and removes a file that was begun and not ended; without one it does nothing. */
void block_writer_drop(struct block_writer *writer);
/* Bytes of the file so far, checksums included. */
int64_t block_writer_bytes(const struct block_writer *writer);

/* ---- reading: begin, get, end; close, at any time */

struct block_reader;
struct block_reader *block_reader_create(void);
void block_reader_destroy(struct block_reader *reader);

/* Errors: NOT_FOUND; CORRUPT: it is no regular file; IO. */
MUST_CHECK enum status block_reader_begin(struct block_reader *reader, const char *path,
                                          struct error *error);
/* The next bytes of the content. Errors: CORRUPT: a checksum is wrong, or the file ends before; IO.
 */
MUST_CHECK enum status block_reader_get(struct block_reader *reader, void *data, size_t bytes,
                                        struct error *error);
/* All content must have been read. Errors: CORRUPT: something follows; IO. */
MUST_CHECK enum status block_reader_end(struct block_reader *reader, struct error *error);
void block_reader_close(struct block_reader *reader);
/* Of the file that was begun last. */
const char *block_reader_path(const struct block_reader *reader);
/* Bytes of the file that have been read, checksums included. */
int64_t block_reader_bytes(const struct block_reader *reader);

#endif
