#include "common/base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"

static bool is_private(const struct stat *info) {
  mode_t others = info->st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
  return (info->st_mode & others) == 0;
}

static enum status check(const struct stat *info, bool is_secret, const char *option,
                         const char *path, size_t max_bytes, struct error *error) {
  if (!S_ISREG(info->st_mode))
    return status_fail(error, STATUS_INVALID, "%s=%.400s: it is not a regular file", option, path);
  if (is_secret && !is_private(info))
    return status_fail(error, STATUS_INVALID,
                       "%s=%.400s: others may read this secret (mode %04o): chmod 600 it", option,
                       path, info->st_mode & 07777);
  if ((size_t)info->st_size > max_bytes)
    return status_fail(error, STATUS_INVALID, "%s=%.400s: it has %lld bytes, more than %zu", option,
                       path, (long long)info->st_size, max_bytes);
  return STATUS_OK;
}

static enum status read_all(char *text, size_t *bytes, int fd, size_t max_bytes) {
  *bytes = 0;
  for (ssize_t got; *bytes < max_bytes; *bytes += (size_t)got) {
    got = read(fd, text + *bytes, max_bytes - *bytes);
    if (got < 0 && errno == EINTR)
      got = 0;
    else if (got < 0)
      return STATUS_IO;
    else if (got == 0)
      break;
  }
  text[*bytes] = '\0';
  return STATUS_OK;
}

static enum status read_file(char **text, size_t *bytes, struct stat *info, bool is_secret,
                             const char *option, const char *path, size_t max_bytes,
                             struct error *error) {
  *text = NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold it up */
  if (fd < 0 || fstat(fd, info) != 0) {
    int reason = errno;
    if (fd >= 0) close(fd);
    return status_fail(error, STATUS_INVALID, "%s=%.400s: it cannot be read: %s", option, path,
                       strerror(reason));
  }
  enum status status = check(info, is_secret, option, path, max_bytes, error);
  if (status == STATUS_OK) {
    *text = check_alloc(max_bytes + 1, 1);
    if (read_all(*text, bytes, fd, max_bytes) != STATUS_OK)
      status = status_fail(error, STATUS_INVALID, "%s=%.400s: it cannot be read: %s", option, path,
                           strerror(errno));
  }
  close(fd);
  if (status == STATUS_OK) return STATUS_OK;
  free(*text);
  *text = NULL;
  return status;
}

enum status private_file_read(char **text, size_t *bytes, struct stat *info, const char *option,
                              const char *path, size_t max_bytes, struct error *error) {
  return read_file(text, bytes, info, true, option, path, max_bytes, error);
}

enum status public_file_read(char **text, size_t *bytes, struct stat *info, const char *option,
                             const char *path, size_t max_bytes, struct error *error) {
  return read_file(text, bytes, info, false, option, path, max_bytes, error);
}

bool file_has_changed(const char *path, struct stat *seen) {
  struct stat now = {0}, before = *seen;
  if (stat(path, &now) != 0) now = (struct stat){0};
  *seen = now;
  return now.st_ino != before.st_ino || now.st_size != before.st_size ||
         now.st_mode != before.st_mode || now.st_mtim.tv_sec != before.st_mtim.tv_sec ||
         now.st_mtim.tv_nsec != before.st_mtim.tv_nsec ||
         now.st_ctim.tv_sec != before.st_ctim.tv_sec ||
         now.st_ctim.tv_nsec != before.st_ctim.tv_nsec;
}
