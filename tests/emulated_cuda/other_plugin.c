/* A plugin of another version, for tests. */
#include "learner/device/plugin.h"

const struct device_plugin acorn_device_plugin = {.version = DEVICE_PLUGIN_VERSION + 1,
                                                  .ops_bytes = sizeof(struct device_ops)};
