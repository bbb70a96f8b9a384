#include "common/base/version.h"

#include <stdio.h>
#include <string.h>

/* version_build.c has those of the programs. */
__attribute__((weak)) const char version_number[] = "unknown";
__attribute__((weak)) const char version_commit[] = "unknown";

bool version_asked(const char *program, int argc, char *const *argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
    if (strcmp(argv[i], "--version") != 0) continue;
    printf("%s (Acorn) %s, commit %s\n", program, version_number, version_commit);
    return true;
  }
  return false;
}
