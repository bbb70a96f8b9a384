#include "learner/device/cuda_plugin.h"

#include <dlfcn.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "learner/device/libraries.h"
#include "learner/device/plugin.h"

static struct {
  pthread_mutex_t lock;
  const struct device_plugin *plugin; /* NULL: not loaded */
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Without a slash at its end. */
static void program_folder(char folder[PATH_MAX]) {
  char path[PATH_MAX];
  files_program(path);
  snprintf(folder, PATH_MAX, "%s", dirname(path));
}

static void plugin_path(char path[PATH_MAX]) {
  const char *named = getenv("ACORN_CUDA_PLUGIN");
  char folder[PATH_MAX];
  program_folder(folder);
  int bytes = named && *named ? snprintf(path, PATH_MAX, "%s", named)
                              : snprintf(path, PATH_MAX, "%s/libacorn_cuda.so", folder);
  if (bytes >= PATH_MAX) path[0] = '\0';
}

/* ---- libraries of CUDA that the system's search does not find */

/* Loads the library from the first folder that has it. Patterns of glob. */
static bool load_from(const char *folders, const char *library) {
  char pattern[PATH_MAX];
  glob_t found;
  if (snprintf(pattern, sizeof(pattern), "%s/%s", folders, library) >= (int)sizeof(pattern))
    return false;
  void *loaded_library = NULL;
  if (glob(pattern, 0, NULL, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc && !loaded_library; i++)
      loaded_library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
    globfree(&found);
  }
  return loaded_library != NULL;
}

/* Below a folder that a variable names, or that lies at `base`. */
static bool load_below(const char *base, const char *folders, const char *library) {
  char pattern[PATH_MAX];
  if (!base || !*base) return false;
  if (snprintf(pattern, sizeof(pattern), "%s/%s", base, folders) >= (int)sizeof(pattern))
    return false;
  return load_from(pattern, library);
}

/* LD_LIBRARY_PATH and the loader's own folders have been searched. */
static bool load_library(const char *library) {
  static const char pip[] = "lib/python3*/site-packages/nvidia/*/lib";
  char folder[PATH_MAX];
  program_folder(folder);
  return load_below(getenv("CUDA_HOME"), "lib64", library) ||
         load_below(getenv("CUDA_PATH"), "lib64", library) ||
         load_below("/usr/local/cuda", "lib64", library) ||
         load_below(getenv("VIRTUAL_ENV"), pip, library) ||
         load_below(folder, "../.venv/lib/python3*/site-packages/nvidia/*/lib", library) ||
         load_below("/usr/local/lib", "python3*/*-packages/nvidia/*/lib", library) ||
         load_below("/usr/lib", "python3*/*-packages/nvidia/*/lib", library);
}

/* A library that is loaded is found by its name alone. */
static void *load_named(const char *library) {
  void *found = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (!found && load_library(library)) found = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  return found;
}

/* ---- the plugin */

static enum status check_version(const struct device_plugin *plugin, const char *path,
                                 struct error *error) {
  if (!plugin)
    return status_fail(error, STATUS_MISMATCH, "device cuda: %s is no plugin of this program",
                       path);
  if (plugin->version == DEVICE_PLUGIN_VERSION && plugin->ops_bytes == sizeof(struct device_ops))
    return STATUS_OK;
  return status_fail(error, STATUS_MISMATCH,
                     "device cuda: %s is of version %u.%u, this program needs %u.%zu: build both "
                     "from the same source (make)",
                     path, plugin->version, plugin->ops_bytes, DEVICE_PLUGIN_VERSION,
                     sizeof(struct device_ops));
}

static void warn(const char *text) {
  log_warn("%s", text);
}

static enum status load_plugin(const struct device_plugin **out, struct error *error) {
  static const struct device_plugin_host host = {.check_failed = check_failed,
                                                 .give_up = check_give_up,
                                                 .alloc = check_alloc,
                                                 .load_library = load_named,
                                                 .warn = warn};
  char path[PATH_MAX];
  plugin_path(path);
  if (access(path, F_OK) != 0)
    return status_fail(error, STATUS_UNAVAILABLE,
                       "device cuda needs %s, which is not there: `make cuda` builds it where "
                       "nvcc is (scripts/setup.sh cuda), --device=cpu does without",
                       path);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return status_fail(error, STATUS_UNAVAILABLE, "device cuda: %s", dlerror());
  const struct device_plugin *plugin = dlsym(library, DEVICE_PLUGIN_SYMBOL);
  enum status status = check_version(plugin, path, error);
  if (status != STATUS_OK) {
    dlclose(library);
    return status;
  }
  plugin->open(&host);
  *out = plugin;
  return STATUS_OK;
}

/* It stays loaded: its threads and CUDA's may outlive the last device. */
static enum status get_plugin(const struct device_plugin **out, struct error *error) {
  pthread_mutex_lock(&loaded.lock);
  enum status status = STATUS_OK;
  if (!loaded.plugin) status = load_plugin(&loaded.plugin, error);
  *out = loaded.plugin;
  pthread_mutex_unlock(&loaded.lock);
  return status;
}

enum status cuda_plugin_create(struct device **out, const struct device_options *options,
                               struct error *error) {
  *out = NULL;
  const struct device_plugin *plugin;
  enum status status = get_plugin(&plugin, error);
  return status == STATUS_OK ? plugin->create(out, options, error) : status;
}

enum status cuda_plugin_count(int *gpus, struct error *error) {
  const struct device_plugin *plugin;
  enum status status = get_plugin(&plugin, error);
  return status == STATUS_OK ? plugin->count(gpus, error) : status;
}

/* cuDriverGetVersion writes 12080 for 12.8. The driver's library is only there if a device uses
 * it. */
void device_cuda_version(char *text, size_t bytes) {
  int version = 0, (*get)(int *) = NULL;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver) *(void **)&get = dlsym(driver, "cuDriverGetVersion");
  text[0] = '\0';
  if (get && get(&version) == 0)
    snprintf(text, bytes, "%d.%d", version / 1000, version % 1000 / 10);
  if (driver) dlclose(driver);
}
