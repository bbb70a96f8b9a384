#include "learner/experience/frames.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

struct frames {
  int footprint;
  size_t row_stride;
  uint8_t *observation; /* (slots, footprint, row_stride) */
  int *next;            /* (slots) where the next one goes: a ring */
};

struct frames *frames_create(struct device *device, int num_slots, int footprint,
                             size_t row_stride) {
  CHECK(num_slots > 0 && footprint > 0, "%d slots, %d frames", num_slots, footprint);
  struct frames *frames = check_alloc(1, sizeof(*frames));
  *frames = (struct frames){.footprint = footprint, .row_stride = row_stride};
  frames->observation =
      device->ops->alloc(device, (size_t)num_slots * (size_t)footprint * row_stride);
  frames->next = check_alloc((size_t)num_slots, sizeof(*frames->next));
  return frames;
}

void frames_destroy(struct device *device, struct frames *frames) {
  if (!frames) return;
  device->ops->release(device, frames->observation);
  free(frames->next);
  free(frames);
}

static size_t place(const struct frames *frames, int slot, int at) {
  return ((size_t)slot * (size_t)frames->footprint + (size_t)at) * frames->row_stride;
}

void frames_push(struct frames *frames, int slot, const uint8_t *observation) {
  int *next = &frames->next[slot];
  memcpy(frames->observation + place(frames, slot, *next), observation, frames->row_stride);
  *next = (*next + 1) % frames->footprint;
}

const uint8_t *frames_before(const struct frames *frames, int slot, int k) {
  int at = (frames->next[slot] - k + frames->footprint) % frames->footprint;
  return frames->observation + place(frames, slot, at);
}
