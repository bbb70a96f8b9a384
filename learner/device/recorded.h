/* A fixed sequence of operations that is given to a device again and again: on a device that has
 * recordings it is recorded once and played from then on, which costs one call instead of one for
 * each operation. On other devices it is called each time.
 *
 * The first time is a direct call, in which scratch memory grows and copies of weights are made;
 * the second records. So `give` may only give operations whose arguments are the same each time,
 * and what varies lies in memory whose address stays: the device's, or that of alloc_host, uploaded
 * within. See device.h for what must not be in a recording.
 * Upstream: learner/train, learner/serve. Thread: the device's. */
#ifndef ACORN_LEARNER_DEVICE_RECORDED_H
#define ACORN_LEARNER_DEVICE_RECORDED_H

#include "learner/device/device.h"

/* Zero: nothing has run yet. */
struct recorded {
  bool has_run;
  bool failed;                        /* to record: it is called each time */
  struct device_recording *recording; /* NULL before the second run, or on devices without */
};

/* Runs what `give` gives the device. */
void recorded_run(struct recorded *recorded, struct device *device, void (*give)(void *context),
                  void *context);
/* The next run is the first again. Waits for those that were given. */
void recorded_forget(struct recorded *recorded, struct device *device);

#endif
