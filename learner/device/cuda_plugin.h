/* Loads the plugin with the CUDA device, libacorn_cuda.so: once in a process, when a CUDA device is
 * first asked for. It lies beside the program; ACORN_CUDA_PLUGIN=PATH names another one.
 * Upstream: device.c. Thread: any; one mutex. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_PLUGIN_H
#define ACORN_LEARNER_DEVICE_CUDA_PLUGIN_H

#include "learner/device/device.h"
#include "learner/device/create.h"

/* Errors: UNAVAILABLE: there is no plugin, or a library that it needs is missing, or no GPU can be
 * used; MISMATCH: the plugin is of another version; INVALID: an option. */
MUST_CHECK enum status cuda_plugin_create(struct device **out, const struct device_options *options,
                                          struct error *error);

/* How many GPUs can be used, at least 1. Errors: as above. */
MUST_CHECK enum status cuda_plugin_count(int *gpus, struct error *error);

#endif
