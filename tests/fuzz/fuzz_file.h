/* A file in memory, for fuzzers of what is read by its path. Include it in one fuzzer. */
#ifndef ACORN_TESTS_FUZZ_FILE_H
#define ACORN_TESTS_FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/check.h"

/* The path of a file that holds these bytes, until the next call. */
static inline const char *fuzz_file(const uint8_t *data, size_t size) {
  static char path[64];
  static int file = -1;
  if (file < 0) file = memfd_create("fuzz", 0);
  snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
  CHECK(file >= 0 && ftruncate(file, 0) == 0, "no file");
  CHECK(pwrite(file, data, size, 0) == (ssize_t)size, "a short write");
  return path;
}

/* A folder in which `name` is a link to such a file, until the program ends. For one name. */
static char fuzz_folder_path[] = "/tmp/fuzz-folder-XXXXXX", fuzz_link_path[64];

static inline void fuzz_folder_remove(void) {
  unlink(fuzz_link_path);
  rmdir(fuzz_folder_path);
}

static inline const char *fuzz_folder(const char *name, const char *target) {
  if (fuzz_link_path[0]) return fuzz_folder_path;
  CHECK(mkdtemp(fuzz_folder_path), "no folder");
  snprintf(fuzz_link_path, sizeof(fuzz_link_path), "%s/%s", fuzz_folder_path, name);
  CHECK(symlink(target, fuzz_link_path) == 0, "no link");
  atexit(fuzz_folder_remove);
  return fuzz_folder_path;
}

#endif
