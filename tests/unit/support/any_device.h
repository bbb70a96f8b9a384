/* Devices by name, as in learner/device/create.h, and "guarded", which tests alone have. */
#ifndef ACORN_TESTS_SUPPORT_ANY_DEVICE_H
#define ACORN_TESTS_SUPPORT_ANY_DEVICE_H

#include <string.h>

#include "learner/device/create.h"
#include "tests/devices/guarded.h"

/* guarded has one precision, float32. */
MUST_CHECK static inline enum status any_device_create_with(struct device **out, const char *name,
                                                            const char *precision,
                                                            struct error *error) {
  const struct device_options options = {.name = name, .precision = precision};
  if (strcmp(name, "guarded") != 0) return device_create_by(out, &options, error);
  *out = device_guarded_create();
  return STATUS_OK;
}

/* The i-th of those with float32; NULL behind the last. "cuda" wants emulated_cuda_use. */
static inline const char *any_device_name(int i) {
  static const char *const names[] = {"ref", "cpu", "guarded", "cuda", NULL};
  return names[i];
}

MUST_CHECK static inline enum status any_device_create(struct device **out, const char *name,
                                                       struct error *error) {
  return any_device_create_with(out, name, "float32", error);
}

#endif
