#include "learner/experience/slots.h"

#include <stdlib.h>

#include "common/base/check.h"

struct slots *slots_create(struct device *device, int num_slots, int state_size) {
  struct slots *slots = check_alloc(1, sizeof(*slots));
  size_t n = (size_t)num_slots;
  slots->num_slots = num_slots;
  slots->state_size = state_size;
  slots->life = check_alloc(n, sizeof(*slots->life));
  slots->steps = check_alloc(n, sizeof(*slots->steps));
  slots->previous_action = check_alloc(n, sizeof(*slots->previous_action));
  if (state_size)
    slots->state = device->ops->alloc(device, n * (size_t)state_size * device->ops->real_bytes);
  return slots;
}

void slots_destroy(struct device *device, struct slots *slots) {
  if (!slots) return;
  if (slots->state) device->ops->release(device, slots->state);
  free(slots->life);
  free(slots->steps);
  free(slots->previous_action);
  free(slots);
}
