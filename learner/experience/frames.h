/* The last few observations of slots whose steps are not kept in pages (evaluation): what stacked
 * frames show besides the newest. Thread: inference. Upstream: serve/memory.h. */
#ifndef ACORN_LEARNER_EXPERIENCE_FRAMES_H
#define ACORN_LEARNER_EXPERIENCE_FRAMES_H

#include "learner/device/device.h"

struct frames;

/* `footprint` observations of each slot. */
struct frames *frames_create(struct device *device, int num_slots, int footprint,
                             size_t row_stride);
void frames_destroy(struct device *device, struct frames *frames);

void frames_push(struct frames *frames, int slot, const uint8_t *observation);
/* The k-th last that was pushed, 1 <= k <= footprint. */
const uint8_t *frames_before(const struct frames *frames, int slot, int k);

#endif
