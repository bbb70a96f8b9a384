/* The plugin's one exported symbol, what it calls of the program that loaded it, and its errors. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "learner/device/cuda/cuda.h"

extern "C" {
#include "learner/device/plugin.h"
}

static struct device_plugin_host host;

/* ---- common/base/check.h, by the program's functions */

extern "C" void check_failed(const char *file, int line, const char *condition, const char *format,
                             ...) {
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  host.check_failed(file, line, condition, "%s", message);
  abort();
}

extern "C" void check_give_up(const char *format, ...) {
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  host.give_up("%s", message);
  abort();
}

extern "C" void *check_alloc(size_t count, size_t size) {
  return host.alloc(count, size);
}

void *cuda_library(const char *name) {
  return host.load_library(name);
}

void cuda_warn_once(bool *warned, const char *format, ...) {
  char text[1024];
  va_list values;
  if (__atomic_exchange_n(warned, true, __ATOMIC_RELAXED)) return;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  host.warn(text);
}

/* A later call returns a kernel's error: a run with CUDA_LAUNCH_BLOCKING=1 shows which kernel it
 * was. */
void cuda_failed(const char *file, int line, const char *call, const char *name,
                 const char *sentence) {
  check_failed(file, line, call,
               "%s: %s. The GPU's state is lost; a checkpoint is not. If a kernel failed, "
               "CUDA_LAUNCH_BLOCKING=1 in the environment shows which one; if the GPU itself did, "
               "dmesg has a line with Xid",
               name, sentence);
}

/* ---- GPUs */

static enum status fail_without_driver(int driver, struct error *error) {
  if (driver == 0)
    return status_fail(error, STATUS_UNAVAILABLE,
                       "no NVIDIA driver is installed on this machine (libcuda.so.1)");
  return status_fail(error, STATUS_UNAVAILABLE,
                     "the NVIDIA driver supports CUDA %d.%d, and the plugin is built for %d.%d: "
                     "update the driver, or build with an older toolkit",
                     driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                     CUDART_VERSION % 1000 / 10);
}

static enum status count(int *gpus, struct error *error) {
  int driver = 0;
  *gpus = 0;
  (void)cudaDriverGetVersion(&driver);
  cudaError_t failure = cudaGetDeviceCount(gpus);
  (void)cudaGetLastError();
  if (failure == cudaErrorInsufficientDriver) return fail_without_driver(driver, error);
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (failure == cudaErrorNoDevice || (failure == cudaSuccess && *gpus == 0))
    return status_fail(error, STATUS_UNAVAILABLE, "the NVIDIA driver shows no GPU%s%s%s",
                       visible ? " (CUDA_VISIBLE_DEVICES='" : "", visible ? visible : "",
                       visible ? "')" : "");
  if (failure != cudaSuccess)
    return status_fail(error, STATUS_UNAVAILABLE, "no GPU can be used: %s: %s",
                       cudaGetErrorName(failure), cudaGetErrorString(failure));
  return STATUS_OK;
}

static void open_plugin(const struct device_plugin_host *given) {
  host = *given;
}

static enum status create(struct device **out, const struct device_options *options,
                          struct error *error) {
  int gpus;
  *out = NULL;
  enum status status = count(&gpus, error);
  if (status != STATUS_OK) return status;
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (options->gpu < 0 || options->gpu >= gpus)
    return status_fail(error, STATUS_INVALID, "--gpu=%d: %d GPU%s can be used, from 0 on%s%s%s",
                       options->gpu, gpus, gpus == 1 ? "" : "s",
                       visible ? " (CUDA_VISIBLE_DEVICES='" : "", visible ? visible : "",
                       visible ? "')" : "");
  return cuda_create(out, options, error);
}

#ifndef CUDA_PLUGIN_VERSION /* tests build a plugin of another one */
#define CUDA_PLUGIN_VERSION DEVICE_PLUGIN_VERSION
#endif

const struct device_plugin acorn_device_plugin = {CUDA_PLUGIN_VERSION, sizeof(struct device_ops),
                                                  open_plugin, count, create};
