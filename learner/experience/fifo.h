/* The source of on-policy batches: windows in the order in which they close, each used once.
 * Two batches: one open (inference gathers into it), one in use (the trainer); or three, where the
 * trainer holds two at a time. They take turns: when the open one is full and the next is free,
 * that one is open.
 *
 * Inference waits while all are full, that is, while the trainer computes; that wait is the
 * back-pressure which bounds the policy lag. With drain it waits for every update. Both waits are
 * measured.
 * Upstream: learner/run/run_experience.c. Threads: as in source.h.
 * Guarded by: one mutex, two condition variables. Gathering runs outside the lock (the open batch
 * belongs to inference). */
#ifndef ACORN_LEARNER_EXPERIENCE_FIFO_H
#define ACORN_LEARNER_EXPERIENCE_FIFO_H

#include "common/metrics/metrics.h"
#include "learner/experience/source.h"

struct fifo_config {
  int T, N;
  struct step_shape shape; /* as the pages' */
  int64_t max_lag;  /* windows whose first step is older than this many updates are dropped and
                      counted; 0: never */
  bool synchronous; /* windows whose last step is older than the newest parameters are dropped too:
                       those that closed together with a batch that has just been trained on */
  int lent_at_once; /* batches that the trainer may hold: 1, or 2; 0 counts as 1 */
  struct metric *give_wait_us, *take_wait_us; /* of each wait; may be NULL */
};

/* device: inference's, which gathers; trainer: that of the trainer, which is given a batch while it
 * may still be gathered: what this device is given from then on runs behind that. Owner: the
 * caller, with source_destroy. */
struct source *fifo_create(struct device *device, struct device *trainer,
                           const struct fifo_config *config);

#endif
