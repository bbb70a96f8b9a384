#include "tests/unit/support/emulated_cuda.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "learner/device/create.h"

/* A file of the build's folder of tests. */
static void find(char found[PATH_MAX + 64], const char *name) {
  char path[PATH_MAX];
  ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - 1);
  CHECK(bytes > 0, "no /proc/self/exe");
  path[bytes] = '\0';
  char *tests = strstr(path, "/tests/unit/");
  CHECK(tests, "%s is not below build/tests/unit", path);
  *tests = '\0';
  snprintf(found, PATH_MAX + 64, "%s/tests/%s", path, name);
}

void emulated_cuda_use(void) {
  char plugin[PATH_MAX + 64];
  find(plugin, "libacorn_cuda_emulated.so");
  CHECK(setenv("ACORN_CUDA_PLUGIN", plugin, 0) == 0, "no room for ACORN_CUDA_PLUGIN");
}

/* One that is loaded is found by its name. */
void emulated_nccl_use(void) {
  char library[PATH_MAX + 64];
  find(library, "nccl/libnccl.so.2");
  CHECK(dlopen(library, RTLD_NOW | RTLD_GLOBAL), "%s", dlerror());
}

struct device *emulated_cuda_create(const char *precision) {
  struct device *device;
  struct error error;
  emulated_cuda_use();
  enum status status = device_create_by(
      &device, &(struct device_options){.name = "cuda", .precision = precision}, &error);
  CHECK(status == STATUS_OK, "%s", error.text);
  return device;
}

bool emulated_cuda_is_used(void) {
  emulated_cuda_use();
  return strstr(getenv("ACORN_CUDA_PLUGIN"), "emulated") != NULL;
}

/* A function of the runtime, which is in the plugin. */
static void (*emulated(const char *name))(void) {
  void *library = dlopen(getenv("ACORN_CUDA_PLUGIN"), RTLD_NOW | RTLD_NOLOAD);
  CHECK(library, "the plugin is not loaded");
  void *found = dlsym(library, name);
  dlclose(library);
  CHECK(found, "the plugin has no %s", name);
  void (*function)(void);
  memcpy(&function, &found, sizeof(function));
  return function;
}

long emulated_cuda_count(const char *name) {
  return ((long (*)(const char *))emulated("emulated_cuda_calls"))(name);
}

int emulated_cuda_take_nodes(const char *what) {
  enum { MOST = 256 };
  const char *names[MOST];
  size_t count = ((size_t(*)(const char **, size_t))emulated("emulated_take_nodes"))(names, MOST);
  if (!what) return (int)count;
  printf("%s: %zu nodes:", what, count);
  for (size_t i = 0; i < count && i < MOST; i++) printf(" %s", names[i]);
  printf("\n");
  return (int)count;
}

void emulated_cuda_hold(void) {
  emulated("emulated_hold")();
}

void emulated_cuda_spare(void) {
  emulated("emulated_spare")();
}

void emulated_cuda_let_go(void) {
  emulated("emulated_let_go")();
}
