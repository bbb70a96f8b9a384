#include "envs/env_module.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"

/* What gymnasium/game.c reads: gymnasium.so is not linked to this file. */
static const char variable[] = "ACORN_MODULE";
static const char suffix[] = ".py";

/* ---- use */

static bool is_python_file(const char *path) {
  size_t length = strlen(path), end = strlen(suffix);
  const char *slash = strrchr(path, '/');
  size_t name = strlen(slash ? slash + 1 : path);
  return name > end && strcmp(path + length - end, suffix) == 0;
}

enum status env_module_use(const char *path, const char *env, struct error *error) {
  if (!path[0]) return STATUS_OK;
  if (strncmp(env, "gym:", 4) != 0)
    return status_fail(error, STATUS_INVALID,
                       "--module=%.300s: a Python file registers environments for gym:ID, and the "
                       "environment is %.100s",
                       path, env);
  if (!is_python_file(path))
    return status_fail(error, STATUS_INVALID,
                       "--module=%.300s: name the file of the module, my_env.py; a module that is "
                       "installed or in PYTHONPATH is named in the environment: gym:my_module:ID",
                       path);
  char absolute[PATH_MAX];
  struct stat info;
  bool found = realpath(path, absolute) && stat(absolute, &info) == 0;
  if (found && !S_ISREG(info.st_mode))
    return status_fail(error, STATUS_INVALID, "--module=%.300s: it is not a regular file", path);
  if (!found || access(absolute, R_OK) != 0)
    return status_fail(error, STATUS_NOT_FOUND, "--module=%.300s: %s", path, strerror(errno));
  CHECK(setenv(variable, absolute, 1) == 0, "out of memory");
  return STATUS_OK;
}

/* ---- what a run keeps */

static bool module_folder(char *path, size_t bytes, const char *run_folder) {
  return snprintf(path, bytes, "%s/module", run_folder) < (int)bytes;
}

/* The paths of the Python files in the folder; the caller frees them with globfree. */
static bool list_files(glob_t *files, const char *folder) {
  char pattern[PATH_MAX + 8], plain[PATH_MAX];
  /* A run folder's name may have characters that mean something in a pattern. */
  size_t length = 0;
  for (const char *c = folder; *c && length < sizeof(plain) - 2; c++) {
    if (strchr("*?[\\", *c)) plain[length++] = '\\';
    plain[length++] = *c;
  }
  plain[length] = '\0';
  snprintf(pattern, sizeof(pattern), "%s/*%s", plain, suffix);
  return glob(pattern, 0, NULL, files) == 0;
}

bool env_module_kept(char *path, size_t bytes, const char *run_folder) {
  char folder[PATH_MAX];
  glob_t files;
  if (!run_folder[0] || !module_folder(folder, sizeof(folder), run_folder)) return false;
  if (!list_files(&files, folder)) return false;
  bool fits = snprintf(path, bytes, "%s", files.gl_pathv[0]) < (int)bytes;
  globfree(&files);
  return fits;
}

static bool copy(FILE *to, FILE *from) {
  char block[1 << 14];
  for (size_t n; (n = fread(block, 1, sizeof(block), from)) > 0;)
    if (fwrite(block, 1, n, to) != n) return false;
  return !ferror(from);
}

/* Whole or not at all: a run that is cut short while it is continued keeps the earlier file. */
static bool copy_file(const char *to, const char *from) {
  char temporary[PATH_MAX];
  if (snprintf(temporary, sizeof(temporary), "%s.tmp", to) >= (int)sizeof(temporary)) return false;
  FILE *source = fopen(from, "r");
  FILE *target = source ? fopen(temporary, "w") : NULL;
  bool copied = target && copy(target, source);
  if (source) fclose(source);
  if (target) copied = fclose(target) == 0 && copied;
  return copied && rename(temporary, to) == 0;
}

/* Those of an earlier part of the run, when it goes on with another. */
static void remove_others(const char *folder, const char *kept) {
  glob_t files;
  if (!list_files(&files, folder)) return;
  for (size_t i = 0; i < files.gl_pathc; i++)
    if (strcmp(files.gl_pathv[i], kept) != 0) unlink(files.gl_pathv[i]);
  globfree(&files);
}

enum status env_module_keep(const char *run_folder, struct error *error) {
  char folder[PATH_MAX], kept[PATH_MAX], here[PATH_MAX];
  const char *path = getenv(variable);
  if (!path || !path[0]) return STATUS_OK;
  bool fits = module_folder(folder, sizeof(folder), run_folder) &&
              snprintf(kept, sizeof(kept), "%s%s", folder, strrchr(path, '/')) < (int)sizeof(kept);
  if (!fits) return status_fail(error, STATUS_INVALID, "the path of --module is too long");
  if (realpath(kept, here) && strcmp(here, path) == 0) return STATUS_OK;
  bool made = mkdir(folder, 0777) == 0 || errno == EEXIST;
  if (!made || !copy_file(kept, path))
    return status_fail(error, STATUS_IO, "cannot copy %s to %s: %s", path, kept, strerror(errno));
  remove_others(folder, kept);
  return STATUS_OK;
}
