#include "common/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MIN_RESERVE = 8, MAX_RESERVE = 64, RESERVED_PART = 4, ENOUGH = 1024 };

int files_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return INT_MAX;
  if (limit.rlim_cur < limit.rlim_max) {
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  }
  return limit.rlim_cur < INT_MAX ? (int)limit.rlim_cur : INT_MAX;
}

int files_room(int limit) {
  int reserve = limit / RESERVED_PART;
  if (reserve < MIN_RESERVE) reserve = MIN_RESERVE;
  if (reserve > MAX_RESERVE) reserve = MAX_RESERVE;
  return limit > reserve ? limit - reserve : 0;
}

enum status files_check(const char *who, int own, int connections, struct error *error) {
  int limit = files_limit(), kept = own + connections, needed = kept;
  if (files_room(limit) >= kept) return STATUS_OK;
  while (files_room(needed) < kept) needed++;
  return status_fail(
      error, STATUS_EXHAUSTED,
      "a process may open %d files here (ulimit -n), and %s needs %d: %d of its own, %d for "
      "connections and %d in reserve; raise the limit (ulimit -n %d)",
      limit, who, needed, own, connections, needed - kept, needed > ENOUGH ? needed : ENOUGH);
}

int files_open_regular(const char *path, const char **why) {
  struct stat about;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) return fd;
  bool is_other = fd >= 0 || errno == ENXIO || errno == ENODEV; /* a socket, a device */
  if (fd >= 0) close(fd);
  if (is_other) errno = ENXIO;
  *why = is_other ? "it is no regular file" : strerror(errno);
  return -1;
}

FILE *files_read(const char *path, const char **why) {
  int fd = files_open_regular(path, why);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
  if (fd < 0 || file) return file;
  *why = strerror(errno);
  close(fd);
  return NULL;
}

FILE *files_create(const char *path) {
  if (unlink(path) != 0 && errno != ENOENT) return NULL;
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  return fd < 0 ? NULL : fdopen(fd, "w");
}

static bool name_next(char next[PATH_MAX], const char *path) {
  if (snprintf(next, PATH_MAX, "%s.new", path) < PATH_MAX) return true;
  errno = ENAMETOOLONG;
  return false;
}

FILE *files_begin(const char *path) {
  char next[PATH_MAX];
  return name_next(next, path) ? files_create(next) : NULL;
}

enum status files_replace(FILE *file, const char *path, struct error *error) {
  char next[PATH_MAX];
  bool written = file && name_next(next, path) && fflush(file) == 0 && !ferror(file) &&
                 fsync(fileno(file)) == 0;
  int reason = errno;
  if (file && fclose(file) != 0 && written) {
    reason = errno;
    written = false;
  }
  if (written && rename(next, path) == 0) return STATUS_OK;
  if (written) reason = errno;
  if (file) unlink(next);
  return status_fail(error, STATUS_IO, "cannot write %.300s: %s", path, strerror(reason));
}

enum status files_make_folders(const char *path, struct error *error) {
  char part[PATH_MAX];
  snprintf(part, sizeof(part), "%s", path);
  for (char *p = part + 1;; p++) {
    if (*p != '/' && *p != '\0') continue;
    char end = *p;
    *p = '\0';
    if (mkdir(part, 0777) != 0 && errno != EEXIST)
      return status_fail(error, STATUS_IO, "cannot create the folder %s: %s", part,
                         strerror(errno));
    if (end == '\0') return STATUS_OK;
    *p = end;
  }
}

void files_program(char *path) {
  ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
  path[length < 0 ? 0 : length] = '\0';
}
