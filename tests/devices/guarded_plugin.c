/* The device `guarded` as a plugin: with ACORN_CUDA_PLUGIN=build/tests/libguarded.so a learner that
 * is started with --device=cuda runs on it. It has its own copies of what it calls of the program.
 */
#include "learner/device/plugin.h"
#include "tests/devices/guarded.h"

static void open_plugin(const struct device_plugin_host *host) {
  (void)host;
}

static enum status count(int *gpus, struct error *error) {
  (void)error;
  *gpus = 1;
  return STATUS_OK;
}

static enum status create(struct device **out, const struct device_options *options,
                          struct error *error) {
  (void)options, (void)error;
  *out = device_guarded_create();
  return STATUS_OK;
}

const struct device_plugin acorn_device_plugin = {DEVICE_PLUGIN_VERSION, sizeof(struct device_ops),
                                                  open_plugin, count, create};
