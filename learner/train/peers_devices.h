/* The learners' devices as a group that adds up without the host, where all of them can.
 *
 * Upstream: learner/run/run_learners.c. Downstream: train/peers.h, struct device_group_ops. Thread:
 * main. */
#ifndef ACORN_LEARNER_TRAIN_PEERS_DEVICES_H
#define ACORN_LEARNER_TRAIN_PEERS_DEVICES_H

#include "learner/train/peers.h"

/* Whether the device's library can be used, if there is one: before the learners meet. Errors:
 * MISMATCH: it is of another version. */
MUST_CHECK enum status peers_check_device(struct device *device, struct error *error);

/* A meeting, and the device's peers from then on: sums are made by the group that all devices
 * join, or else through the host. `way` says which, for the log, and why. Errors: UNAVAILABLE:
 * another learner is missing. */
enum { PEERS_DEVICES_BYTES = 512 };
MUST_CHECK enum status peers_join_devices(struct peers *peers, struct device *device,
                                          char way[PEERS_DEVICES_BYTES], struct error *error);

#endif
