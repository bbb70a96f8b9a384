#include "learner/train/mpi_library.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/files.h"

/* Beside the program. A name without a slash is of this folder: dlopen would search others. */
static void plugin_path(char path[PATH_MAX + 32]) {
  const char *named = getenv("ACORN_MPI_PLUGIN");
  char program[PATH_MAX];
  files_program(program);
  if (named && *named)
    snprintf(path, PATH_MAX + 32, "%s%s", strchr(named, '/') ? "" : "./", named);
  else
    snprintf(path, PATH_MAX + 32, "%s/libacorn_mpi.so", dirname(program));
}

enum status mpi_library_load(const struct mpi_plugin **out, struct error *error) {
  char path[PATH_MAX + 32];
  plugin_path(path);
  if (access(path, F_OK) != 0)
    return status_fail(error, STATUS_UNAVAILABLE,
                       "--learners_mpi needs %s, which is not there: install MPICH "
                       "(scripts/setup.sh mpi, or Debian's mpich and libmpich-dev) and run make",
                       path);
  /* Global: parts that some MPIs load themselves look for their library's symbols. */
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    return status_fail(error, STATUS_UNAVAILABLE,
                       "--learners_mpi: %s; the MPI that the plugin was built with has to be "
                       "installed here (Debian: mpich), or run make again with the one that is",
                       dlerror());
  const struct mpi_plugin *plugin = dlsym(library, MPI_PLUGIN_SYMBOL);
  *out = plugin;
  if (plugin && plugin->version == MPI_PLUGIN_VERSION && plugin->bytes == sizeof(*plugin))
    return STATUS_OK;
  if (plugin)
    (void)!status_fail(error, STATUS_MISMATCH,
                       "--learners_mpi: %s is of version %u.%u, this program needs %u.%zu: build "
                       "both from the same source (make)",
                       path, plugin->version, plugin->bytes, MPI_PLUGIN_VERSION, sizeof(*plugin));
  else
    (void)!status_fail(error, STATUS_MISMATCH, "--learners_mpi: %s is no plugin of this program",
                       path);
  dlclose(library);
  return STATUS_MISMATCH;
}
