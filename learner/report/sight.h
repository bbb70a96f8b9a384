/* Draws the images that the network receives: frames side by side, small ones enlarged.
 * Upstream: learner/report/events.c. Downstream: common/picture. Thread: any (no state). */
#ifndef ACORN_LEARNER_REPORT_SIGHT_H
#define ACORN_LEARNER_REPORT_SIGHT_H

#include "common/picture/canvas.h"
#include "learner/device/device.h"

/* A row for each image, its frames from the newest to the oldest. Three channels are a colour,
 * others planes of grey beside each other. Images of one plane stand in one row.
 * Shapes: images (count, H, W, stack * C), 0 to 1, of `inputs`, which has images only
 * (images_split).
 * Owner: the caller, pixels with free(). */
struct canvas sight_draw(const float *images, int count, const struct device_inputs *inputs);

#endif
