/* Parameter snapshots from the trainer to inference: crossing 3. Four buffers: one for each of two
 * readers, the newest, and one that nobody holds, for the trainer to write; so publishing waits for
 * its copy but never for a reader, and a reader never sees a half-applied update. (With three, two
 * readers of old snapshots beside an untaken newest one would leave nothing to write.)
 * Threads: weights_publish: trainer; weights_acquire, weights_release: any reader, at most two at a
 * time. */
#ifndef ACORN_LEARNER_PARAMS_WEIGHTS_H
#define ACORN_LEARNER_PARAMS_WEIGHTS_H

#include "learner/device/device.h"

struct weights;

/* P reals per buffer. Version 0 holds zeros until the first publish. */
struct weights *weights_create(struct device *device, size_t num_parameters);
void weights_destroy(struct weights *weights);

/* Copies P parameters into a free buffer and makes it the newest. Versions grow. `device`: the
 * caller's own. */
void weights_publish(struct weights *weights, struct device *device, const real *parameters,
                     int64_t version);

/* The newest snapshot and its version; it stays unchanged until released. */
const real *weights_acquire(struct weights *weights, int64_t *version);
void weights_release(struct weights *weights, const real *parameters);

/* Version of the newest, without taking it. Thread: any. */
int64_t weights_version(const struct weights *weights);

#endif
