#include "envs/python_packages.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/files.h"
#include "envs/bridge.h"

static const char *const names[] = {"gymnasium", "ale_py", "numpy"};

/* The folder above bin/python: of ACORN_PYTHON, or .venv beside the build folder. envs/gymnasium
 * starts the same one. */
static void find_prefix(char prefix[PATH_MAX]) {
  const char *chosen = getenv("ACORN_PYTHON");
  if (chosen && chosen[0]) {
    snprintf(prefix, PATH_MAX, "%s", chosen);
    for (int up = 0; up < 2; up++) {
      char *slash = strrchr(prefix, '/');
      if (slash) *slash = '\0';
    }
    return;
  }
  char here[PATH_MAX];
  files_program(here);
  for (char *slash; (slash = strrchr(here, '/'));) {
    *slash = '\0';
    if (snprintf(prefix, PATH_MAX, "%s/.venv", here) < PATH_MAX && access(prefix, F_OK) == 0)
      return;
  }
  snprintf(prefix, PATH_MAX, "/usr");
}

/* "numpy-2.1.3.dist-info" -> "2.1.3". */
static void add_version(json_t *packages, const char *name, const char *path) {
  const char *version = strrchr(path, '/') + 1 + strlen(name) + 1;
  const char *end = strstr(version, ".dist-info");
  if (end) json_object_set_new(packages, name, json_stringn(version, (size_t)(end - version)));
}

static void find_in(json_t *packages, const char *prefix, const char *folder, const char *name) {
  char pattern[PATH_MAX + 128];
  glob_t found;
  snprintf(pattern, sizeof(pattern), "%s/%s/%s-[0-9]*.dist-info", prefix, folder, name);
  if (glob(pattern, 0, NULL, &found) != 0) return;
  if (!json_object_get(packages, name)) add_version(packages, name, found.gl_pathv[0]);
  globfree(&found);
}

void python_packages_add(json_t *packages, const char *word) {
  static const char *const folders[] = {"lib/python3.*/site-packages", "lib/python3/dist-packages",
                                        "local/lib/python3.*/dist-packages"};
  if (!bridge_is_word(word)) return;
  char prefix[PATH_MAX];
  find_prefix(prefix);
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    for (size_t k = 0; k < sizeof(folders) / sizeof(folders[0]); k++)
      find_in(packages, prefix, folders[k], names[i]);
}
