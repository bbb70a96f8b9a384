/* Which parts of an observation are images that convolutions read, and how they lie in memory.
 * Upstream: pixels.c, learner/run/run_environment.c, learner/train/update.c,
 * learner/report/events.c, deploy/inspect/watch/world.c. Thread: any (plain data). */
#ifndef ACORN_LEARNER_NETWORK_IMAGES_H
#define ACORN_LEARNER_NETWORK_IMAGES_H

#include "learner/device/device.h"

/* Of an image: the convolutions of every network fit. What is smaller is a vector beside it. */
enum { IMAGES_LEAST_SIDE = 36 };

/* Describes tensor `index` of `inputs` as what its shape is. Two dimensions are rows and columns;
 * three have the channels last, or first where only the other two are sides of an image; four are
 * several of these. */
void images_describe(struct device_inputs *inputs, int index, const struct space_tensor *tensor);

/* Whether tensor `index` is one: uint8 or float32, of at least IMAGES_LEAST_SIDE a side. */
bool images_has(const struct device_inputs *in, int index);

/* Divides the tensors of an observation: images and the rest, in their order; each has its own
 * only, and all else as `in`. `images` and `rest` may be NULL. Returns how many images there are.
 */
int images_split(struct device_inputs *images, struct device_inputs *rest,
                 const struct device_inputs *in);

/* Errors: INVALID: there is none, or they differ in size; `network` is named. */
MUST_CHECK enum status images_check(const struct device_inputs *in, const char *network,
                                    struct error *error);

/* Numbers of what the network sees of one row: all images of all frames. */
size_t images_numbers(const struct device_inputs *in);

#endif
