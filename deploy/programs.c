#include "deploy/programs.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum status programs_folder(char path[PATH_MAX], struct error *error) {
  ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
  if (length < 0)
    return status_fail(error, STATUS_IO, "cannot read /proc/self/exe: %s", strerror(errno));
  path[length] = '\0';
  *strrchr(path, '/') = '\0';
  return STATUS_OK;
}
