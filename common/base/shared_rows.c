#include "common/base/shared_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/files.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, NAME_BYTES = 64 };

static void name_of(char name[NAME_BYTES], uint64_t id) {
  snprintf(name, NAME_BYTES, "acorn-rows-%016" PRIx64, id);
}

/* `file` is a descriptor of this process. Returns whether it is mapped now. */
static bool map(struct shared_rows *rows, int file, size_t bytes, int access) {
  void *data = mmap(NULL, bytes, access, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) return false;
  rows->data = data;
  rows->bytes = bytes;
  return true;
}

/* Leaves the reserve of descriptors alone, which is for files that are open for a moment. The pages
 * are allocated here: where there are none left, a process that writes would get SIGBUS. */
static int make_file(size_t bytes, uint64_t id) {
  char name[NAME_BYTES];
  name_of(name, id);
  int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return -1;
  errno = EMFILE;
  if (file > 0 && file < files_room(files_limit()) && fallocate(file, 0, 0, (off_t)bytes) == 0 &&
      fcntl(file, F_ADD_SEALS, SEALS) == 0)
    return file;
  int reason = errno;
  close(file);
  errno = reason;
  return -1;
}

enum status shared_rows_create(struct shared_rows *rows, size_t bytes, uint64_t id,
                               struct error *error) {
  *rows = (struct shared_rows){0};
  int file = make_file(bytes, id);
  if (file >= 0 && map(rows, file, bytes, PROT_READ)) {
    rows->file = file;
    return STATUS_OK;
  }
  int reason = errno;
  if (file >= 0) close(file);
  return status_fail(error, STATUS_EXHAUSTED, "no memory of %zu bytes to share: %s", bytes,
                     strerror(reason));
}

/* NULL, or why the file that `path`, a link in /proc, leads to is not the memory `id`. The name of
 * a memory file is its maker's: random, and so no other's. */
static const char *fault_of_name(const char *path, uint64_t id) {
  char name[NAME_BYTES], expected[2 * NAME_BYTES], target[2 * NAME_BYTES];
  name_of(name, id);
  int length = snprintf(expected, sizeof(expected), "/memfd:%s (deleted)", name);
  ssize_t bytes = readlink(path, target, sizeof(target));
  if (bytes < 0) return strerror(errno);
  return bytes == length && memcmp(target, expected, (size_t)length) == 0 ? NULL
                                                                          : "it is another file";
}

static const char *fault_of_size(int file, size_t bytes) {
  struct stat info;
  int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || fstat(file, &info) != 0) return strerror(errno);
  if ((seals & SEALS) != SEALS) return "its size is not sealed";
  return (size_t)info.st_size == bytes ? NULL : "it has another size";
}

/* Opens and maps it, or returns why not. The descriptor may become another file's between the check
 * of its name and the opening: so that file is opened without effect, and checked again. */
static const char *try_open(struct shared_rows *rows, const char *path, size_t bytes, uint64_t id) {
  const char *fault = fault_of_name(path, id);
  if (fault) return fault;
  int own = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (own < 0) return strerror(errno);
  char own_path[NAME_BYTES];
  snprintf(own_path, sizeof(own_path), "/proc/self/fd/%d", own);
  fault = fault_of_name(own_path, id);
  if (!fault) fault = fault_of_size(own, bytes);
  if (!fault && !map(rows, own, bytes, PROT_READ | PROT_WRITE)) fault = strerror(errno);
  close(own);
  return fault;
}

enum status shared_rows_open(struct shared_rows *rows, uint32_t process, uint32_t file,
                             size_t bytes, uint64_t id, struct error *error) {
  *rows = (struct shared_rows){0};
  char path[NAME_BYTES];
  snprintf(path, sizeof(path), "/proc/%" PRIu32 "/fd/%" PRIu32, process, file);
  const char *fault = try_open(rows, path, bytes, id);
  if (!fault) return STATUS_OK;
  return status_fail(error, STATUS_NOT_FOUND,
                     "the learner's memory cannot be opened: %s (for example, the learner has "
                     "another user, or runs in another container)",
                     fault);
}

void shared_rows_close_file(struct shared_rows *rows) {
  if (rows->file) close(rows->file);
  rows->file = 0;
}

void shared_rows_deinit(struct shared_rows *rows) {
  shared_rows_close_file(rows);
  if (rows->data) munmap(rows->data, rows->bytes);
  *rows = (struct shared_rows){0};
}
