/* Reads and sets the parameters from outside, between two updates.
 *
 * A request waits in a list until the trainer is between two updates; one that waits for data is
 * interrupted. So an update never sees parameters that are half set, none is lost, and the number
 * of updates stays as it is.
 * Upstream: trainer.h. Downstream: update.h, params/weights.h, experience/source.h. Threads:
 * access_ask: any; access_waits and the others: the trainer's.
 * Invariant: the source is interrupted while requests wait, and then alone. */
#ifndef ACORN_LEARNER_TRAIN_ACCESS_H
#define ACORN_LEARNER_TRAIN_ACCESS_H

#include <pthread.h>

#include "learner/experience/source.h"
#include "learner/params/weights.h"
#include "learner/train/update.h"

#define ACCESS_ANY_VERSION (-1)

struct access_request {
  bool sets;
  float *values;            /* (P) read, or to set */
  const bool *given;        /* to set: which, in the order of trainer_items */
  int64_t expected_version; /* else nothing is done; ACCESS_ANY_VERSION: whichever it is */
  /* Once it is over, on the trainer's thread; on the caller's if no update is made any more. */
  void (*done)(struct access_request *request);

  int64_t version; /* out: at which it was done */
  /* OK; MISMATCH: of the version; UNAVAILABLE: the run ends */
  enum status status;
  struct error error;
  struct access_request *next;
};

struct access {
  struct source *source; /* read-only after init */
  pthread_mutex_t lock;  /* guards what follows */
  struct access_request *first, **last;
  bool ended;
};

void access_init(struct access *access, struct source *source);
void access_deinit(struct access *access);

/* Owner: the request is lent until `done`, as is what it points to. */
void access_ask(struct access *access, struct access_request *request);

bool access_waits(struct access *access);
/* Does what was asked for, and publishes what it has set. While no update runs. */
void access_serve(struct access *access, struct update *update, struct weights *weights,
                  struct device *device);
/* No update is made any more: all requests fail, now and later. */
void access_end(struct access *access);

#endif
