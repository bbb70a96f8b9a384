/* A plugin of another version, for tests. Built with -DNEEDS it is linked with a library that the
 * loader does not find by itself. */
#include "learner/device/plugin.h"

#ifdef NEEDS
int absent_cuda_function(void);
int (*const needed)(void) = absent_cuda_function;
#endif

const struct device_plugin acorn_device_plugin = {.version = DEVICE_PLUGIN_VERSION + 1,
                                                  .ops_bytes = sizeof(struct device_ops)};
