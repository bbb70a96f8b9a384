#include "common/base/block_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/files.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are stored as they are in memory");

enum { CHECKSUM_BYTES = sizeof(uint32_t), ROOM = BLOCK_FILE_BYTES + CHECKSUM_BYTES };

/* False: it is too long. */
static bool keep_path(char to[PATH_MAX], const char *path) {
  return snprintf(to, PATH_MAX, "%s", path) < PATH_MAX;
}

/* ---- writing */

struct block_writer {
  int file; /* -1: none */
  char path[PATH_MAX];
  bool (*cancelled)(void *context);
  void *context;
  uint8_t *block; /* (ROOM) */
  size_t filled;  /* bytes of content in it */
  uint32_t crc;   /* of all content */
  int64_t bytes;  /* of the file */
  int reason;     /* errno of the first failure; ECANCELED: cancelled; 0: none */
};

struct block_writer *block_writer_create(void) {
  struct block_writer *writer = check_alloc(1, sizeof(*writer));
  *writer = (struct block_writer){.file = -1, .block = check_alloc(ROOM, 1)};
  return writer;
}

void block_writer_destroy(struct block_writer *writer) {
  if (!writer) return;
  block_writer_drop(writer);
  free(writer->block);
  free(writer);
}

static enum status write_failed(const struct block_writer *writer, struct error *error) {
  if (writer->reason == ECANCELED)
    return status_fail(error, STATUS_DONE, "%s was not written to its end", writer->path);
  const char *advice = "";
  if (writer->reason == ENOSPC || writer->reason == EDQUOT) advice = "; make room there";
  if (writer->reason == EFBIG) advice = "; raise the limit of file sizes (ulimit -f)";
  return status_fail(error, STATUS_IO, "%s cannot be written: %s%s", writer->path,
                     strerror(writer->reason), advice);
}

enum status block_writer_begin(struct block_writer *writer, const char *path,
                               bool (*cancelled)(void *context), void *context,
                               struct error *error) {
  block_writer_drop(writer);
  *writer = (struct block_writer){
      .file = -1, .cancelled = cancelled, .context = context, .block = writer->block};
  errno = ENAMETOOLONG;
  if (keep_path(writer->path, path) && (unlink(path) == 0 || errno == ENOENT))
    writer->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (writer->file >= 0) return STATUS_OK;
  writer->reason = errno;
  return write_failed(writer, error);
}

static void write_whole(struct block_writer *writer, const uint8_t *at, size_t bytes) {
  while (bytes > 0) {
    ssize_t written = write(writer->file, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      writer->reason = errno;
      return;
    }
    at += written;
    bytes -= (size_t)written;
    writer->bytes += written;
  }
}

/* What is in the block, and the checksum. */
static void write_block(struct block_writer *writer) {
  if (writer->cancelled && writer->cancelled(writer->context)) {
    writer->reason = ECANCELED;
    return;
  }
  writer->crc = crc32c_extend(writer->crc, writer->block, writer->filled);
  memcpy(writer->block + writer->filled, &writer->crc, CHECKSUM_BYTES);
  write_whole(writer, writer->block, writer->filled + CHECKSUM_BYTES);
  writer->filled = 0;
}

bool block_writer_put(struct block_writer *writer, const void *data, size_t bytes) {
  CHECK(writer->file >= 0, "no file was begun");
  for (const uint8_t *from = data; bytes > 0 && !writer->reason;) {
    size_t room = BLOCK_FILE_BYTES - writer->filled, count = bytes < room ? bytes : room;
    memcpy(writer->block + writer->filled, from, count);
    writer->filled += count;
    from += count;
    bytes -= count;
    if (writer->filled == BLOCK_FILE_BYTES) write_block(writer);
  }
  return !writer->reason;
}

static enum status drop_failed(struct block_writer *writer, struct error *error) {
  enum status status = write_failed(writer, error);
  block_writer_drop(writer);
  return status;
}

enum status block_writer_flush(struct block_writer *writer, struct error *error) {
  CHECK(writer->file >= 0, "no file was begun");
  if (writer->filled && !writer->reason) write_block(writer);
  return writer->reason ? drop_failed(writer, error) : STATUS_OK;
}

enum status block_writer_end(struct block_writer *writer, struct error *error) {
  CHECK(writer->file >= 0 && !writer->filled && !writer->reason, "the content was not flushed");
  if (fsync(writer->file) != 0) writer->reason = errno;
  if (writer->reason) return drop_failed(writer, error);
  int file = writer->file;
  writer->file = -1;
  if (close(file) == 0) return STATUS_OK;
  writer->reason = errno;
  unlink(writer->path);
  return write_failed(writer, error);
}

void block_writer_drop(struct block_writer *writer) {
  if (writer->file < 0) return;
  close(writer->file);
  unlink(writer->path);
  writer->file = -1;
}

int64_t block_writer_bytes(const struct block_writer *writer) {
  return writer->bytes;
}

/* ---- reading */

struct block_reader {
  int file; /* -1: none */
  char path[PATH_MAX];
  uint8_t *block;    /* (ROOM) */
  size_t filled, at; /* bytes of checked content in it, and how many have been given out */
  uint32_t crc;      /* of all content so far */
  int64_t bytes;     /* of the file so far */
};

struct block_reader *block_reader_create(void) {
  struct block_reader *reader = check_alloc(1, sizeof(*reader));
  *reader = (struct block_reader){.file = -1, .block = check_alloc(ROOM, 1)};
  return reader;
}

void block_reader_destroy(struct block_reader *reader) {
  if (!reader) return;
  block_reader_close(reader);
  free(reader->block);
  free(reader);
}

void block_reader_close(struct block_reader *reader) {
  if (reader->file >= 0) close(reader->file);
  reader->file = -1;
}

static enum status read_failed(const struct block_reader *reader, struct error *error) {
  enum status status = errno == ENOENT                  ? STATUS_NOT_FOUND
                       : errno == EIO || errno == ELOOP ? STATUS_CORRUPT
                                                        : STATUS_IO;
  return status_fail(error, status, "%s cannot be read: %s", reader->path, strerror(errno));
}

enum status block_reader_begin(struct block_reader *reader, const char *path, struct error *error) {
  block_reader_close(reader);
  *reader = (struct block_reader){.file = -1, .block = reader->block};
  const char *why;
  errno = ENAMETOOLONG;
  if (keep_path(reader->path, path)) reader->file = files_open_regular(path, &why);
  if (reader->file >= 0) return STATUS_OK;
  if (errno != ENXIO) return read_failed(reader, error);
  return status_fail(error, STATUS_CORRUPT, "%s is damaged: %s", path, why);
}

/* Reads up to a block; *size: less only at the end of the file. */
static enum status read_block(struct block_reader *reader, size_t *size, struct error *error) {
  *size = 0;
  while (*size < ROOM) {
    ssize_t got = read(reader->file, reader->block + *size, ROOM - *size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return read_failed(reader, error);
    if (got == 0) break;
    *size += (size_t)got;
  }
  return STATUS_OK;
}

static enum status next_block(struct block_reader *reader, struct error *error) {
  size_t size;
  uint32_t expected;
  enum status status = read_block(reader, &size, error);
  if (status != STATUS_OK) return status;
  long long from = reader->bytes, to = from + (long long)size;
  if (size <= CHECKSUM_BYTES)
    return status_fail(error, STATUS_CORRUPT, "%s is damaged: it is cut short at byte %lld",
                       reader->path, to);
  reader->bytes += (int64_t)size;
  reader->filled = size - CHECKSUM_BYTES;
  reader->at = 0;
  reader->crc = crc32c_extend(reader->crc, reader->block, reader->filled);
  memcpy(&expected, reader->block + reader->filled, CHECKSUM_BYTES);
  if (reader->crc == expected) return STATUS_OK;
  reader->filled = 0;
  return status_fail(error, STATUS_CORRUPT,
                     "%s is damaged: bytes %lld to %lld have checksum %08x, expected %08x",
                     reader->path, from, to - 1, reader->crc, expected);
}

enum status block_reader_get(struct block_reader *reader, void *data, size_t bytes,
                             struct error *error) {
  CHECK(reader->file >= 0, "no file was begun");
  for (uint8_t *to = data; bytes > 0;) {
    if (reader->at == reader->filled) {
      enum status status = next_block(reader, error);
      if (status != STATUS_OK) return status;
    }
    size_t left = reader->filled - reader->at, count = bytes < left ? bytes : left;
    memcpy(to, reader->block + reader->at, count);
    reader->at += count;
    to += count;
    bytes -= count;
  }
  return STATUS_OK;
}

enum status block_reader_end(struct block_reader *reader, struct error *error) {
  CHECK(reader->file >= 0, "no file was begun");
  size_t left = reader->filled - reader->at, size = 0;
  enum status status = left ? STATUS_OK : read_block(reader, &size, error);
  if (status != STATUS_OK || left + size == 0) return status;
  return status_fail(error, STATUS_CORRUPT, "%s is damaged: bytes follow its end at byte %lld",
                     reader->path, (long long)(reader->bytes - (int64_t)left));
}

const char *block_reader_path(const struct block_reader *reader) {
  return reader->path;
}

int64_t block_reader_bytes(const struct block_reader *reader) {
  return reader->bytes;
}
