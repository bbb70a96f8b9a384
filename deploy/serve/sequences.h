/* The sequences of a version with a memory: which slot has the state of which. Their number is
 * bounded: one that never ends is evicted when a new one needs its slot, the one that was idle for
 * longest first.
 * Upstream: version.h. Thread: any; the version's lock guards it. */
#ifndef ACORN_DEPLOY_SERVE_SEQUENCES_H
#define ACORN_DEPLOY_SERVE_SEQUENCES_H

#include <stdbool.h>
#include <stdint.h>

#include "deploy/serve/request.h"

struct sequence {
  char id[REQUEST_ID_BYTES];
  int next;    /* of the same bucket, or of those that are free; -1: none */
  int waiting; /* requests between enter and leave */
  bool is_live;
  bool ends;                    /* with its last request in hand */
  bool superseded;              /* it has begun anew in another version */
  char began[REQUEST_ID_BYTES]; /* with this choice of a version */
  int64_t used_us;
};

struct sequences {
  int capacity, live, num_buckets;
  struct sequence *slot; /* (capacity) */
  int *bucket;           /* (num_buckets) first slot */
  int free;              /* first slot */
};

void sequences_init(struct sequences *sequences, int capacity);
void sequences_deinit(struct sequences *sequences);

/* -1: there is none of that name. */
int sequences_find(const struct sequences *sequences, const char *id);
/* The slot for a request of it. `start`: it begins, anew if it is there; *evicted: another one went
 * for it. -1: it is not there; with `start`: each slot has a request in hand. */
int sequences_enter(struct sequences *sequences, const char *id, bool start, bool end,
                    int64_t now_us, bool *evicted);
/* The request is answered. */
void sequences_leave(struct sequences *sequences, int slot);
/* Ends those that were idle since then. */
void sequences_expire(struct sequences *sequences, int64_t since_us);

#endif
