#include "envs/bridge.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/files.h"

bool bridge_is_word(const char *word) {
  return strncmp(word, "gym:", 4) == 0 || strcmp(word, "atari") == 0 ||
         strcmp(word, "football") == 0 || strcmp(word, "dmlab") == 0;
}

/* The library of the interpreter that ACORN_PYTHON names: one of the system's, as that of a virtual
 * environment is, has the plain name, another its path (the Makefile's PYTHON). False: the
 * interpreter is nowhere, or its path is too long for a name. */
static bool name_library(char name[NAME_MAX + 1]) {
  char chosen[PATH_MAX], system[PATH_MAX];
  const char *python = getenv("ACORN_PYTHON");
  snprintf(name, NAME_MAX + 1, "gymnasium.so");
  if (!python || !python[0] || !realpath(python, chosen)) return false;
  if (realpath("/usr/bin/python3", system) && strcmp(chosen, system) == 0) return false;
  for (char *c = chosen; *c; c++)
    if (*c == '/') *c = '-';
  return snprintf(name, NAME_MAX + 1, "gymnasium%s.so", chosen) <= NAME_MAX;
}

/* In the program's folder, or, for tests, in one of those above it; the program's if in none. */
static void find_library(char path[PATH_MAX + NAME_MAX + 2], const char *name) {
  enum { FOLDERS = 6 };
  char program[PATH_MAX];
  files_program(program);
  char first[PATH_MAX + NAME_MAX + 2] = "";
  for (int i = 0; i < FOLDERS; i++) {
    char *slash = strrchr(program, '/');
    if (!slash) break;
    *slash = '\0';
    snprintf(path, PATH_MAX + NAME_MAX + 2, "%s/%s", program, name);
    if (access(path, F_OK) == 0) return;
    if (i == 0) memcpy(first, path, sizeof first);
  }
  memcpy(path, first, sizeof first);
}

enum status bridge_open(const struct acorn_env **out, const char *word, struct error *error) {
  char path[PATH_MAX + NAME_MAX + 2], name[NAME_MAX + 1], advice[PATH_MAX + 64];
  bool is_other = name_library(name);
  snprintf(advice, sizeof advice, "%s%s",
           is_other ? "make gymnasium PYTHON=" : "scripts/setup.sh gym && make gymnasium",
           is_other ? getenv("ACORN_PYTHON") : "");
  find_library(path, name);
  if (access(path, F_OK) != 0)
    return status_fail(error, STATUS_INVALID,
                       "environment %s needs Python, and %s is not there: it is made by: %s", word,
                       path, advice);
  // Python's own extensions look for its functions in the whole process.
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  const struct acorn_env *(*open)(const char *, char *, size_t) = NULL;
  if (library) *(void **)&open = dlsym(library, "acorn_bridge_open");
  if (!open)
    return status_fail(error, STATUS_INVALID, "environment %s needs Python: %s; what helps: %s",
                       word, dlerror(), advice);
  char text[400] = "";
  *out = open(word, text, sizeof text);
  if (*out) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "environment %s: %s", word, text);
}
