#include "deploy/private_folder.h"

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "/acorn-XXXXXX"

static bool create_in(char path[PRIVATE_FOLDER_BYTES], const char *parent) {
  if (!parent || parent[0] != '/' || strlen(parent) + strlen(NAME) >= PRIVATE_FOLDER_BYTES) {
    errno = ENAMETOOLONG;
    return false;
  }
  snprintf(path, PRIVATE_FOLDER_BYTES, "%s" NAME, parent);
  return mkdtemp(path) != NULL;
}

enum status private_folder_create(char path[PRIVATE_FOLDER_BYTES], struct error *error) {
  if (create_in(path, getenv("XDG_RUNTIME_DIR")) || create_in(path, "/tmp")) return STATUS_OK;
  return status_fail(
      error, STATUS_IO,
      "cannot make a folder for the learner's socket in /tmp: %s; give the learner an "
      "address with --listen=HOST:PORT, or set XDG_RUNTIME_DIR",
      strerror(errno));
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
  (void)info, (void)kind, (void)walk;
  return remove(path);
}

void private_folder_remove(const char *path) {
  enum { OPEN_FOLDERS = 8 };
  nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}
