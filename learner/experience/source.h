/* Where training batches come from: crossing 2. Inference gives windows as they close, the trainer
 * takes batches. A row of operations in a file of its own: fifo.c for on-policy algorithms (first
 * in, first out, each window once), replay.c for the others.
 *
 * Upstream: serve/inference.h, train/trainer.h. Downstream: experience/pages.h.
 * Threads: give, flush, drain: inference; take, release: trainer; capture: trainer, and main once
 * that has ended; save, let_go: the one that writes checkpoints; load: main, before the others
 * start; close, interrupt, counters: any. */
#ifndef ACORN_LEARNER_EXPERIENCE_SOURCE_H
#define ACORN_LEARNER_EXPERIENCE_SOURCE_H

#include <math.h>

#include "common/base/block_file.h"
#include "learner/experience/pages.h"

/* Since the start. Units: microseconds. `busy_us`: how long the trainer has held its present batch,
 * 0 if none; `full`: inference is waiting now, for room. */
struct source_counters {
  int64_t windows_given, windows_dropped_lag, batches_taken;
  int64_t give_wait_us, take_wait_us;
  int64_t busy_us;
  int open_windows;
  bool full;
  /* Of a replay alone. since: inserted since sampling started; late: for windows that were gone. */
  bool replays;
  int64_t windows_held, windows_needed, windows_sampled, windows_since;
  int64_t priorities_late, priorities_not_finite;
  int64_t saving_us, saving_wait_us; /* how long inference waits for its file now, and has in all */
};

/* Windows sampled for each one that was inserted since sampling started; NaN before. */
static inline double source_replay_ratio(const struct source_counters *counters) {
  if (counters->windows_since == 0) return NAN;
  return (double)counters->windows_sampled / (double)counters->windows_since;
}

#define SOURCE_FOREVER_US INT64_MAX

struct source {
  const struct source_ops *ops;
};

struct source_ops {
  void (*destroy)(struct source *source);
  /* Takes a closed window over and releases it in the pages; may wait for the trainer (not once
   * closed). current_version: of the newest parameters. Returns true if this completed a batch. */
  bool (*give)(struct source *source, struct pages *pages, const struct window *window,
               int64_t current_version);
  /* Behind the gives of an inference batch, before the next one's steps are placed: what was given
   * may be copied by now only, in one operation, and is released then. NULL: nothing waits. */
  void (*flush)(struct source *source, struct pages *pages);
  /* Waits until the trainer has taken and released everything that was complete. Returns at once
   * when closed. */
  void (*drain)(struct source *source);
  /* The next batch; waits for it so long at most, and returns NULL where none is ready then. What
   * the trainer's device is given from now on reads it as it is. NULL once closed (a half-full
   * batch is dropped). Owner: lent until release, by when what reads it is done, and its priorities
   * are on the host. As many are lent at a time as the source was made for, 1 or 2; they are
   * released in the order in which they were taken. */
  struct train_batch *(*take)(struct source *source, int64_t wait_us);
  void (*release)(struct source *source, struct train_batch *batch);
  /* Ends every wait, now and later: gives drop, takes return NULL. What was captured is let go. */
  void (*close)(struct source *source);
  /* While it is on a take does not wait: it returns NULL where no batch is ready. */
  void (*interrupt)(struct source *source, bool on);
  struct source_counters (*counters)(struct source *source);
  /* What can be sampled, for load: the loaded source draws the batches that this one would have
   * drawn when it was captured, between a release and the next take. save writes what was captured
   * last, while all goes on; inference waits only where it would overwrite what is not written yet.
   * let_go instead, if nothing can be written. These and load are NULL where nothing is kept
   * between runs. Errors: the writer's; DONE: it was let go before the end; its file is gone then.
   */
  void (*capture)(struct source *source);
  enum status (*save)(struct source *source, struct block_writer *writer, struct error *error);
  void (*let_go)(struct source *source);
  /* Into a new source and its new pages. Errors: MISMATCH, CORRUPT, IO: both are empty then. */
  enum status (*load)(struct source *source, struct block_reader *reader, struct error *error);
};

static inline void source_destroy(struct source *source) {
  if (source) source->ops->destroy(source);
}
static inline bool source_give(struct source *source, struct pages *pages,
                               const struct window *window, int64_t current_version) {
  return source->ops->give(source, pages, window, current_version);
}
static inline void source_flush(struct source *source, struct pages *pages) {
  if (source->ops->flush) source->ops->flush(source, pages);
}
static inline void source_drain(struct source *source) {
  source->ops->drain(source);
}
static inline struct train_batch *source_take(struct source *source) {
  return source->ops->take(source, SOURCE_FOREVER_US);
}
static inline struct train_batch *source_take_within(struct source *source, int64_t wait_us) {
  return source->ops->take(source, wait_us);
}
static inline struct train_batch *source_try_take(struct source *source) {
  return source->ops->take(source, 0);
}
static inline void source_release(struct source *source, struct train_batch *batch) {
  source->ops->release(source, batch);
}
static inline void source_close(struct source *source) {
  source->ops->close(source);
}
static inline void source_interrupt(struct source *source, bool on) {
  source->ops->interrupt(source, on);
}
static inline struct source_counters source_counters(struct source *source) {
  return source->ops->counters(source);
}
static inline bool source_can_save(const struct source *source) {
  return source->ops->save;
}
static inline void source_capture(struct source *source) {
  source->ops->capture(source);
}
static inline void source_let_go(struct source *source) {
  source->ops->let_go(source);
}
MUST_CHECK static inline enum status source_save(struct source *source, struct block_writer *writer,
                                                 struct error *error) {
  return source->ops->save(source, writer, error);
}
MUST_CHECK static inline enum status source_load(struct source *source, struct block_reader *reader,
                                                 struct error *error) {
  return source->ops->load(source, reader, error);
}

#endif
