#include "common/base/pinned_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"

bool pinned_folder_is(const char *path, int fd) {
  struct stat there, here;
  return stat(path, &there) == 0 && fstat(fd, &here) == 0 && there.st_ino == here.st_ino &&
         there.st_dev == here.st_dev;
}

/* Not /proc/self: a program that records a video is given the path, too. */
int pinned_folder_open(char path[PATH_MAX], const char *name) {
  int fd = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  snprintf(path, PATH_MAX, "/proc/%d/fd/%d", (int)getpid(), fd);
  if (pinned_folder_is(path, fd))
    log_alias(path, name);
  else
    snprintf(path, PATH_MAX, "%s", name);
  return fd;
}

bool pinned_folder_moved(char name[PATH_MAX], int fd, const char *path) {
  char now[PATH_MAX];
  if (pinned_folder_is(name, fd)) return false;
  ssize_t length = readlink(path, now, sizeof(now) - 1);
  if (length < 0) return false;
  now[length] = '\0';
  if (!pinned_folder_is(now, fd)) return false;
  memcpy(name, now, (size_t)length + 1);
  log_alias(path, name);
  return true;
}
