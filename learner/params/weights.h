/* Parameter snapshots from the trainer to inference: crossing 3. Five buffers: one for each of two
 * readers, the newest, and two that are free, for the trainer to write, because it may start an
 * update before it has finished the one before. So writing never waits for a reader, a reader never
 * waits for the trainer's device, and never sees a half-applied update: a snapshot can be taken
 * once its copy is done. (With fewer, two readers of old snapshots beside an untaken newest one
 * would leave nothing to write.)
 * Threads: weights_write, weights_announce, weights_publish: trainer; weights_acquire,
 * weights_release, weights_serial: any reader, at most two at a time. */
#ifndef ACORN_LEARNER_PARAMS_WEIGHTS_H
#define ACORN_LEARNER_PARAMS_WEIGHTS_H

#include "learner/device/device.h"

struct weights;

/* P reals per buffer. Version 0 holds zeros until the first publish. */
struct weights *weights_create(struct device *device, size_t num_parameters);
void weights_destroy(struct weights *weights);

/* Tells the device to copy P parameters into a free buffer. At most two are written and not
 * announced. `device`: the caller's own, in both. */
void weights_write(struct weights *weights, struct device *device, const real *parameters,
                   int64_t version);
/* Makes the oldest of those the newest snapshot, when its copy is done; waits for that. Versions
 * grow. */
void weights_announce(struct weights *weights, struct device *device);
/* Both, when nothing else is written. */
void weights_publish(struct weights *weights, struct device *device, const real *parameters,
                     int64_t version);

/* The newest snapshot and its version; it stays unchanged until released, by when the
 * reader's device is done with it. */
const real *weights_acquire(struct weights *weights, int64_t *version);
void weights_release(struct weights *weights, const real *parameters);

/* Of a snapshot that is held: how many were announced before it. Two of one version, as where
 * parameters were set, differ by it. */
int64_t weights_serial(struct weights *weights, const real *parameters);

/* Version of the newest, without taking it. Thread: any. */
int64_t weights_version(const struct weights *weights);

#endif
