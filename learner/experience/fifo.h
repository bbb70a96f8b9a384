/* From closed windows to training batches, first in, first out: crossing 2. Two batches: one open
 * (inference gathers into it), one in use (the trainer). When the open one is full and the other is
 * free they swap roles.
 *
 * Inference waits only while both are full, that is, while the trainer computes; that wait is the
 * back-pressure which bounds the policy lag, and it is measured.
 * Threads: fifo_give, fifo_drain: inference; fifo_take, fifo_release: trainer; fifo_close and the
 * counters: any.
 * Guarded by: one mutex, two condition variables. Gathering runs outside the lock (the open batch
 * belongs to inference). */
#ifndef ACORN_LEARNER_EXPERIENCE_FIFO_H
#define ACORN_LEARNER_EXPERIENCE_FIFO_H

#include "common/metrics/metrics.h"
#include "learner/experience/pages.h"

struct fifo_config {
  int T, N;
  struct step_shape shape; /* as the pages' */
  int64_t max_lag;  /* windows whose first step is older than this many updates are dropped and
                      counted; 0: never */
  bool synchronous; /* windows whose last step is older than the newest parameters are dropped too:
                       those that closed together with a batch that has just been trained on */
  struct metric *give_wait_us, *take_wait_us; /* of each wait; may be NULL */
};

struct fifo;

struct fifo *fifo_create(struct device *device, const struct fifo_config *config);
void fifo_destroy(struct fifo *fifo);

/* Gathers a closed window into the open batch and releases it. Waits while both batches are full
 * (returns at once when closed). current_version: of the newest parameters, for max_lag. Returns
 * true if this completed a batch. */
bool fifo_give(struct fifo *fifo, struct pages *pages, const struct window *window,
               int64_t current_version);

/* The next full batch; waits for it, and for the device to have gathered it. NULL once closed (a
 * half-full batch is dropped). Owner: lent until fifo_release, by when what reads it is done. */
struct train_batch *fifo_take(struct fifo *fifo);
void fifo_release(struct fifo *fifo, struct train_batch *batch);

/* Waits until the trainer has taken and released everything that was full (for --deterministic).
 * Returns at once when closed. */
void fifo_drain(struct fifo *fifo);

/* Ends every wait, now and later: gives drop, takes return NULL. */
void fifo_close(struct fifo *fifo);

/* Counters since the start. Units: microseconds. `busy_us`: how long the trainer has held its
 * present batch, 0 if none; `full`: inference is waiting now. */
struct fifo_counters {
  int64_t windows_given, windows_dropped_lag, batches_taken;
  int64_t give_wait_us, take_wait_us;
  int64_t busy_us;
  int open_windows;
  bool full;
};
struct fifo_counters fifo_counters(struct fifo *fifo);

#endif
