/* Devices by name. */
#include "learner/device/device.h"

#include <stdlib.h>
#include <string.h>

#include "learner/device/cpu.h"

int device_inputs_size(const struct device_inputs *in) {
  int size = 0;
  for (int k = 0; k < in->num_tensors; k++) size += in->tensor[k].count;
  return size + (in->use_previous_action ? in->num_actions : 0) + (in->use_reward ? 1 : 0);
}

enum status device_create(struct device **out, const char *name, struct error *error) {
  *out = NULL;
  if (strcmp(name, "cpu") == 0) {
    const char *set = getenv("ACORN_CPU");
    return cpu_create(out, set && *set ? set : NULL, error);
  }
  if (strcmp(name, "ref") == 0) *out = device_ref_float_create();
  if (strcmp(name, "ref_double") == 0) *out = device_ref_double_create();
  if (*out) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "unknown device '%s': use cpu, ref or ref_double",
                     name);
}

void device_destroy(struct device *d) {
  if (d) d->ops->destroy(d);
}

const char *device_describe(const struct device *d) {
  return d->ops->describe(d);
}
