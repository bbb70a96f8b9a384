/* DESIGN. A checkpoint is written under one fixed temporary name, so that whatever a crashed run
 * left there is replaced by the next write. It gets its real name when all of it is on the disk,
 * and that name is on the disk before anything older is removed: at every moment, a power cut
 * included, the newest whole checkpoint is there. */
#include "learner/params/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "learner/params/checkpoint_format.h"

#define TEMPORARY_NAME "checkpoint.tmp"
#define NAME_FORMAT "checkpoint-%012lld.acorn"
#define MAX_UPDATES 999999999999

/* ---- names */

struct path {
  char text[PATH_MAX];
};

static enum status join(struct path *path, const char *folder, const char *name,
                        struct error *error) {
  int length = snprintf(path->text, sizeof path->text, "%s/%s", folder, name);
  if (length < (int)sizeof path->text) return STATUS_OK;
  return status_fail(error, STATUS_IO, "the path %.200s.../%s is too long", folder, name);
}

static enum status path_of(struct path *path, const char *folder, int64_t updates,
                           struct error *error) {
  char name[64];
  snprintf(name, sizeof name, NAME_FORMAT, (long long)updates);
  return join(path, folder, name, error);
}

enum status checkpoint_path(char *path, size_t bytes, const char *folder, int64_t updates,
                            struct error *error) {
  struct path whole;
  enum status status = path_of(&whole, folder, updates, error);
  if (status == STATUS_OK && snprintf(path, bytes, "%s", whole.text) >= (int)bytes)
    status = status_fail(error, STATUS_IO, "the path %.200s... is too long", whole.text);
  return status;
}

/* The number in a checkpoint's file name; -1 for any other name. */
static int64_t updates_of(const char *name) {
  char same[64];
  long long updates;
  if (sscanf(name, "checkpoint-%12lld", &updates) != 1 || updates < 0) return -1;
  snprintf(same, sizeof same, NAME_FORMAT, updates);
  return strcmp(name, same) == 0 ? updates : -1;
}

/* The numbers of a folder's checkpoints, the newest first. A training run keeps few and so never
 * allocates for them; `updates` points into the struct then, which must not be moved. */
struct numbers {
  int64_t *updates;
  int count, room;
  int64_t few[64];
};

static void free_numbers(struct numbers *numbers) {
  if (numbers->updates != numbers->few) free(numbers->updates);
}

static void add_number(struct numbers *numbers, int64_t updates) {
  if (numbers->count == numbers->room) {
    int64_t *more = check_alloc(2 * (size_t)numbers->room, sizeof(*more));
    memcpy(more, numbers->updates, (size_t)numbers->count * sizeof(*more));
    free_numbers(numbers);
    numbers->updates = more;
    numbers->room *= 2;
  }
  numbers->updates[numbers->count++] = updates;
}

static int newest_first(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left < right) - (left > right);
}

static enum status list_folder(struct numbers *numbers, const char *folder, struct error *error) {
  numbers->updates = numbers->few;
  numbers->count = 0;
  numbers->room = sizeof(numbers->few) / sizeof(numbers->few[0]);
  DIR *directory = opendir(folder);
  if (!directory)
    return status_fail(error, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
                       "the checkpoint folder %s cannot be read: %s", folder, strerror(errno));
  for (struct dirent *entry; (entry = readdir(directory));) {
    int64_t updates = updates_of(entry->d_name);
    if (updates >= 0) add_number(numbers, updates);
  }
  closedir(directory);
  if (numbers->count)
    qsort(numbers->updates, (size_t)numbers->count, sizeof(int64_t), newest_first);
  return STATUS_OK;
}

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

/* A whole file on the disk, or none. Returns false with errno set. */
static bool write_file(const char *path, const struct checkpoint_item *items, int num_items) {
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

/* The new name is only safe when the folder is on the disk too; some file systems cannot say so
 * (EINVAL). */
static bool sync_folder(const char *folder) {
  int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return false;
  bool done = fsync(file) == 0 || errno == EINVAL;
  int reason = errno;
  close(file);
  errno = reason;
  return done;
}

static enum status write_failed(const char *path, struct error *error) {
  const char *advice = "";
  if (errno == ENOSPC || errno == EDQUOT)
    advice = "; make room there: the older checkpoints are as they were";
  if (errno == EFBIG)
    advice = "; raise the limit of file sizes (ulimit -f): the older checkpoints are as they were";
  return status_fail(error, STATUS_IO, "the checkpoint %s cannot be written: %s%s", path,
                     strerror(errno), advice);
}

/* Removes the oldest beyond `keep`, of those up to `updates`. Files with higher numbers are damaged
 * ones that the run was resumed without: they do not count, and are replaced when the run gets
 * there. */
static void remove_oldest(const char *folder, int64_t updates, int keep) {
  struct numbers numbers;
  struct error error;
  struct path path;
  enum status status = list_folder(&numbers, folder, &error);
  for (int i = 0, kept = 0; status == STATUS_OK && i < numbers.count; i++) {
    if (numbers.updates[i] > updates || kept++ < keep) continue;
    status = path_of(&path, folder, numbers.updates[i], &error);
    if (status == STATUS_OK && unlink(path.text) != 0 && errno != ENOENT)
      log_warn("the old checkpoint %s cannot be removed: %s", path.text, strerror(errno));
  }
  if (status != STATUS_OK) log_warn("old checkpoints were not removed: %s", error.text);
  free_numbers(&numbers);
}

enum status checkpoint_write(const char *folder, int64_t updates,
                             const struct checkpoint_item *items, int num_items, int keep,
                             struct error *error) {
  CHECK(updates >= 0 && updates <= MAX_UPDATES, "update %lld", (long long)updates);
  struct path temporary, path;
  enum status status = join(&temporary, folder, TEMPORARY_NAME, error);
  if (status == STATUS_OK) status = path_of(&path, folder, updates, error);
  if (status != STATUS_OK) return status;

  if (!write_file(temporary.text, items, num_items)) return write_failed(path.text, error);
  if (rename(temporary.text, path.text) != 0) {
    status = write_failed(path.text, error);
    unlink(temporary.text);
    return status;
  }
  if (!sync_folder(folder)) return write_failed(path.text, error);
  if (keep > 0) remove_oldest(folder, updates, keep);
  return STATUS_OK;
}

/* ---- reading */

static enum status read_failed(const char *path, struct error *error) {
  enum status status = errno == ENOENT ? STATUS_NOT_FOUND
                       : errno == EIO  ? STATUS_CORRUPT
                                       : STATUS_IO;
  return status_fail(error, status, "the checkpoint %s cannot be read: %s", path, strerror(errno));
}

/* Reads until `room` bytes or the end. Returns -1 with errno set. */
static ssize_t read_whole(int file, uint8_t *bytes, size_t room) {
  size_t size = 0;
  while (size < room) {
    ssize_t got = read(file, bytes + size, room - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    size += (size_t)got;
  }
  return (ssize_t)size;
}

/* *bytes is the caller's to free, also after an error (NULL then). */
static enum status read_file(uint8_t **bytes, size_t *size, const char *path, struct error *error) {
  enum status status = STATUS_OK;
  struct stat about;
  *bytes = NULL;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return read_failed(path, error);
  ssize_t got = -1;
  if (fstat(file, &about) == 0 && (*bytes = malloc((size_t)about.st_size + 1)))
    got = read_whole(file, *bytes, (size_t)about.st_size);
  if (got < 0) {
    status = read_failed(path, error);
    free(*bytes);
    *bytes = NULL;
  }
  *size = (size_t)got;
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
  if (status != STATUS_OK)
    return status_fail(error, status, "the checkpoint %s is damaged: %s", path, detail.text);
  for (int i = 0; i < directory.count; i++) items[i] = directory.entry[i].item;
  *num_items = directory.count;
  return STATUS_OK;
}

/* The first that is whole. One that has gone since the folder was listed was removed by its writer,
 * for newer ones. */
static enum status read_first_whole(const struct numbers *numbers, const char *folder,
                                    struct checkpoint_item *items, int num_items, int64_t *updates,
                                    struct error *error) {
  struct error first = {""}, detail;
  int damaged = 0;
  for (int i = 0; i < numbers->count; i++) {
    struct path path;
    *updates = numbers->updates[i];
    enum status status = path_of(&path, folder, *updates, error);
    if (status == STATUS_OK) status = checkpoint_read(path.text, items, num_items, &detail);
    if (status == STATUS_NOT_FOUND) continue;
    if (status == STATUS_CORRUPT) {
      log_warn("%s; trying the one before it", detail.text);
      if (damaged++ == 0) first = detail;
      continue;
    }
    if (error && status != STATUS_OK) *error = detail;
    return status;
  }
  if (damaged == 0)
    return status_fail(error, STATUS_NOT_FOUND, "there is no checkpoint in %s", folder);
  return status_fail(error, STATUS_CORRUPT, "no checkpoint of %d in %s is whole; the newest: %s",
                     damaged, folder, first.text);
}

enum status checkpoint_read_newest(const char *folder, struct checkpoint_item *items, int num_items,
                                   int64_t *updates, struct error *error) {
  struct numbers numbers;
  enum status status = list_folder(&numbers, folder, error);
  if (status == STATUS_OK)
    status = read_first_whole(&numbers, folder, items, num_items, updates, error);
  free_numbers(&numbers);
  return status;
}
