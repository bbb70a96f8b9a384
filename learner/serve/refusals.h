/* Counts refused calls for the metrics and logs the reasons, at most ten lines a second each.
 * Further ones of a kind are counted in its next line.
 * Upstream: ingress.c. Downstream: run/gauges.c. Thread: any. */
#ifndef ACORN_LEARNER_SERVE_REFUSALS_H
#define ACORN_LEARNER_SERVE_REFUSALS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum refusal {
  REFUSED_JOIN,
  REFUSED_PLAY,       /* a stream without a lease */
  REFUSED_MESSAGE,    /* that breaks the protocol */
  REFUSED_NOT_FINITE, /* NaN, infinite or huge numbers: nothing can be learned from them */
  REFUSAL_KINDS
};

/* One kind. */
struct refusal_log {
  _Atomic int64_t count;
  /* guarded by the lock */
  int64_t second; /* the present one; */
  int lines;      /* what it has printed */
  int64_t unsaid; /* and not printed */
};

struct refusals {
  struct refusal_log log[REFUSAL_KINDS];
  pthread_mutex_t lock;
};

void refusals_init(struct refusals *refusals);
void refusals_deinit(struct refusals *refusals);

/* One more. `who` is the peer's address or the player's name, `why` the sentence that it got. */
void refusals_note(struct refusals *refusals, enum refusal kind, const char *who, const char *why,
                   int64_t now_us);

#endif
