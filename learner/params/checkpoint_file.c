#include "learner/params/checkpoint_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/crc32c.h"
#include "common/base/files.h"
#include "learner/params/checkpoint_format.h"

/* ---- writing */

/* Returns false with errno set. */
static bool write_whole(int file, const void *data, size_t bytes) {
  for (const uint8_t *at = data; bytes > 0;) {
    ssize_t written = write(file, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    at += written;
    bytes -= (size_t)written;
  }
  return true;
}

static bool write_items(int file, const struct checkpoint_item *items, int num_items) {
  static const uint8_t zeros[CHECKPOINT_ALIGNMENT];
  uint8_t header[CHECKPOINT_HEADER_ROOM];
  bool written = write_whole(file, header, checkpoint_encode_header(header, items, num_items));
  for (int i = 0; written && i < num_items; i++) {
    size_t bytes = checkpoint_item_bytes(&items[i]);
    written = write_whole(file, items[i].data, bytes) &&
              write_whole(file, zeros, checkpoint_padding(bytes));
  }
  return written;
}

bool checkpoint_file_write(const char *path, const struct checkpoint_item *items, int num_items) {
  if (unlink(path) != 0 && errno != ENOENT) return false;
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return false;
  bool done = write_items(file, items, num_items) && fsync(file) == 0;
  int reason = errno;
  if (close(file) != 0 && done) {
    reason = errno;
    done = false;
  }
  if (!done) unlink(path);
  errno = reason;
  return done;
}

bool checkpoint_sync_folder(const char *folder) {
  int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return false;
  bool done = fsync(file) == 0 || errno == EINVAL;
  int reason = errno;
  close(file);
  errno = reason;
  return done;
}

/* ---- reading */

static enum status read_failed(const char *path, struct error *error) {
  enum status status = errno == ENOENT                  ? STATUS_NOT_FOUND
                       : errno == EIO || errno == ELOOP ? STATUS_CORRUPT
                                                        : STATUS_IO;
  return status_fail(error, status, "the checkpoint %s cannot be read: %s", path, strerror(errno));
}

static enum status is_damaged(const char *path, const char *why, struct error *error) {
  return status_fail(error, STATUS_CORRUPT, "the checkpoint %s is damaged: %s", path, why);
}

static enum status open_regular(int *file, size_t *size, const char *path, struct error *error) {
  struct stat about;
  const char *why;
  *file = files_open_regular(path, &why);
  if (*file < 0 && errno == ENXIO) return is_damaged(path, why, error);
  if (*file < 0 || fstat(*file, &about) != 0) return read_failed(path, error);
  *size = (size_t)about.st_size;
  return STATUS_OK;
}

/* Reads until `room` bytes or the end. Returns -1 with errno set. */
static ssize_t read_whole(int file, uint8_t *bytes, size_t room, size_t from) {
  size_t size = 0;
  while (size < room) {
    ssize_t got = pread(file, bytes + size, room - size, (off_t)(from + size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    size += (size_t)got;
  }
  return (ssize_t)size;
}

/* The header of a file of `size` bytes. What a file claims is not believed beyond its size: nothing
 * that is too large is read. */
static enum status read_header(struct checkpoint_directory *directory, int file, size_t size,
                               const char *path, struct error *error) {
  uint8_t header[CHECKPOINT_HEADER_ROOM];
  uint64_t end;
  struct error why;
  ssize_t got = read_whole(file, header, sizeof header, 0);
  if (got < 0) return read_failed(path, error);
  if (!checkpoint_has_magic(header, (size_t)got))
    return status_fail(error, STATUS_CORRUPT, "%s is no checkpoint: it does not begin like one",
                       path);
  if (checkpoint_decode_header(directory, &end, header, (size_t)got, &why) != STATUS_OK)
    return is_damaged(path, why.text, error);
  if (size <= end) return STATUS_OK;
  return status_fail(error, STATUS_CORRUPT,
                     "the checkpoint %s is damaged: %zu bytes follow its end at byte %llu", path,
                     size - (size_t)end, (unsigned long long)end);
}

/* *bytes is the caller's to free, also after an error (NULL then). */
static enum status read_file(uint8_t **bytes, size_t *size, const char *path, struct error *error) {
  struct checkpoint_directory directory;
  int file;
  *bytes = NULL;
  enum status status = open_regular(&file, size, path, error);
  if (status != STATUS_OK) return status;
  status = read_header(&directory, file, *size, path, error);
  if (status == STATUS_OK) {
    *bytes = malloc(*size + 1);
    ssize_t got = *bytes ? read_whole(file, *bytes, *size, 0) : -1;
    if (got < 0) {
      status = read_failed(path, error);
      free(*bytes);
      *bytes = NULL;
    }
    *size = (size_t)got;
  }
  close(file);
  return status;
}

enum status checkpoint_read(const char *path, struct checkpoint_item *items, int num_items,
                            struct error *error) {
  uint8_t *bytes;
  size_t size;
  struct error detail;
  enum status status = read_file(&bytes, &size, path, error);
  if (status != STATUS_OK) return status;
  status = checkpoint_parse(bytes, size, items, num_items, &detail);
  free(bytes);
  if (status == STATUS_OK) return STATUS_OK;
  return status_fail(error, status, "the checkpoint %s %s: %s", path,
                     status == STATUS_CORRUPT ? "is damaged" : "does not fit", detail.text);
}

enum status checkpoint_list(const char *path, struct checkpoint_item *items, int *num_items,
                            struct error *error) {
  struct checkpoint_directory directory;
  uint8_t *bytes;
  size_t size;
  struct error detail;
  *num_items = 0;
  enum status status = read_file(&bytes, &size, path, error);
  if (status != STATUS_OK) return status;
  status = checkpoint_decode(&directory, bytes, size, &detail);
  free(bytes);
  if (status != STATUS_OK) return is_damaged(path, detail.text, error);
  for (int i = 0; i < directory.count; i++) items[i] = directory.entry[i].item;
  *num_items = directory.count;
  return STATUS_OK;
}

/* ---- the version */

static enum status read_version(int64_t *updates, int file, size_t size, const char *path,
                                struct error *error) {
  struct checkpoint_directory directory;
  enum status status = read_header(&directory, file, size, path, error);
  for (int i = 0; status == STATUS_OK && i < directory.count; i++) {
    const struct checkpoint_entry *entry = &directory.entry[i];
    int64_t value;
    if (strcmp(entry->item.name, CHECKPOINT_VERSION) != 0) continue;
    if (entry->item.dtype != CHECKPOINT_INT64 || entry->bytes != sizeof value) continue;
    ssize_t got = read_whole(file, (uint8_t *)&value, sizeof value, (size_t)entry->at);
    if (got < 0) return read_failed(path, error);
    if (got != sizeof value || crc32c(&value, sizeof value) != entry->crc)
      return is_damaged(path, "its version is cut short or has another checksum", error);
    if (value >= 0) *updates = value;
  }
  return status;
}

enum status checkpoint_file_version(int64_t *updates, const char *path, struct error *error) {
  int file;
  size_t size;
  *updates = -1;
  enum status status = open_regular(&file, &size, path, error);
  if (status != STATUS_OK) return status;
  status = read_version(updates, file, size, path, error);
  close(file);
  return status;
}
