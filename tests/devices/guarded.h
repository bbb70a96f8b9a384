/* The device `guarded`: the reference device for float, but as strict as a GPU. The host cannot
 * reach its memory (guarded_memory.h), its operations read and write no other, downloads arrive
 * when they are waited for and not before, and what is uploaded may not change until then. So what
 * runs on it keeps the rule of learner/device/device.h.
 * Upstream: guarded_plugin.c, tests/unit/support/any_device.h. Thread: as device.h says. */
#ifndef ACORN_TESTS_DEVICES_GUARDED_H
#define ACORN_TESTS_DEVICES_GUARDED_H

#include "learner/device/device.h"

/* A device for the calling thread. Owner: the caller, with device_destroy. */
struct device *device_guarded_create(void);

#endif
