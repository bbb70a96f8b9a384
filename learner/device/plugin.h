/* Between the programs and a plugin that brings a device: a shared library that exports the one
 * symbol `acorn_device_plugin`. The programs hide their symbols, so that what the plugin needs of
 * them is passed in.
 * Upstream: cuda_plugin.c, cuda/plugin.cu. */
#ifndef ACORN_LEARNER_DEVICE_PLUGIN_H
#define ACORN_LEARNER_DEVICE_PLUGIN_H

#include "learner/device/device.h"
#include "learner/device/create.h"

/* To be raised when a struct of device.h or of this file changes, or the list of rules. */
enum { DEVICE_PLUGIN_VERSION = 21 };

/* Functions that the plugin calls: the first three are those of common/base/check.h. */
struct device_plugin_host {
  void (*check_failed)(const char *file, int line, const char *condition, const char *format, ...);
  void (*give_up)(const char *format, ...);
  void *(*alloc)(size_t count, size_t size);
  /* As dlopen, also where the loader does not look (cuda_plugin.c); NULL: it is nowhere. */
  void *(*load_library)(const char *name);
  /* A line in the log. */
  void (*warn)(const char *text);
};

struct device_plugin {
  /* These two come first in every version, so that they can be compared. */
  uint32_t version;   /* DEVICE_PLUGIN_VERSION */
  uint32_t ops_bytes; /* sizeof(struct device_ops) */

  /* Before all else. */
  void (*open)(const struct device_plugin_host *host);
  /* How many GPUs can be used, at least 1. Errors: UNAVAILABLE: none, with the reason. */
  enum status (*count)(int *gpus, struct error *error);
  /* Owner: the caller, with device_destroy. Errors: UNAVAILABLE, INVALID. */
  enum status (*create)(struct device **out, const struct device_options *options,
                        struct error *error);
};

/* Defined by a plugin; the programs look it up by name. */
#define DEVICE_PLUGIN_SYMBOL "acorn_device_plugin"
extern __attribute__((visibility("default"))) const struct device_plugin acorn_device_plugin;

#endif
