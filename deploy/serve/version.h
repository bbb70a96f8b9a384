/* One version of a model: the parameters of a checkpoint, and a thread that answers requests with
 * them in batches. A batch is what waits when the thread is free, up to max_batch rows; with a
 * delay it waits for more.
 *
 * Upstream: model.h. Downstream: served.h, sequences.h.
 * Threads: version_open, version_close: main; the others: any.
 * One at a time computes: its own, or one that begins a small batch.
 * Invariant: two steps of a sequence are never in one batch, and run in the order of their
 * submission. */
#ifndef ACORN_DEPLOY_SERVE_VERSION_H
#define ACORN_DEPLOY_SERVE_VERSION_H

#include <pthread.h>

#include "common/metrics/metrics.h"
#include "deploy/serve/sequences.h"
#include "deploy/serve/served.h"

struct version_limits {
  int max_batch; /* rows */
  int64_t delay_us;
  int max_queue; /* requests that wait */
  int max_sequences;
};

/* Of all models together. */
struct version_metrics {
  struct metric *requests, *rows, *refused, *batches, *batch_rows, *wait_us, *run_us, *evictions;
};

struct version {
  /* read-only after open */
  int64_t number;
  struct version_limits limits;
  const struct version_metrics *metrics;
  pthread_t thread;
  bool at_once; /* a full batch takes less than to hand it to another thread is worth */

  /* the thread that is `computing` */
  struct served served;
  bool *busy; /* (max_sequences): has a row in the batch that is being made */

  /* guarded by lock */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct request *first, **last; /* the queue */
  int queued, queued_rows;
  bool idle, closing; /* idle: the thread waits for `changed` */
  bool computing;     /* a thread has a batch */
  struct sequences sequences;

  /* the model's, guarded by its lock */
  int users;
  bool is_retired;
  struct timespec run_begun; /* as its file was loaded */
  struct version *next;
};

/* Loads the checkpoint `file` of the run in `folder`, whose options `options` are (taken over, also
 * on failure), warms up and starts the thread. `of`: a run of the same environment, which is not
 * asked again. Errors: MISMATCH: another environment or signature; checkpoint_read's. */
MUST_CHECK enum status version_open(struct version **out, int64_t number, const char *folder,
                                    const char *file, struct learner_options *options,
                                    const struct run *of, const struct signature *signature,
                                    const struct version_limits *limits,
                                    const struct version_metrics *metrics, struct error *error);
/* Answers what waits, then frees it. */
void version_close(struct version *version);

/* Queues a checked request; `done` follows. Errors: EXHAUSTED: the queue or every sequence is full;
 * NOT_FOUND: the sequence is not known; INVALID: a mask forbids every action. */
MUST_CHECK enum status version_submit(struct version *version, struct request *request,
                                      struct error *error);
/* After one or more of version_submit: what waits is computed, by the version's thread or, if it
 * takes little, a batch of it before this returns. */
void version_begin(struct version *version);
/* When a sequence that goes on here had its last request; -1: it does not. choice: it began with
 * that ("": with any), and not anew elsewhere since; NULL: this version is asked for. */
int64_t version_used_us(struct version *version, const char *sequence, const char *choice);
/* A sequence that was not used since then has begun anew in another version. */
void version_supersede(struct version *version, const char *sequence, int64_t since_us);
/* How many sequences go on here, once those idle since then have ended. */
int version_sequences(struct version *version, int64_t since_us);

#endif
