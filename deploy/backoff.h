/* Back-off between restarts of an actor that keeps dying: 1 s, 2 s, 4 s ... 60 s, and 1 s again
 * once it has worked for a minute. Arithmetic only: it reads no clock and starts nothing.
 * Upstream: deploy/supervisor_actors.c. Thread: the owner's. */
#ifndef ACORN_DEPLOY_BACKOFF_H
#define ACORN_DEPLOY_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct backoff_times {
  int first_ms, longest_ms; /* pauses; each is twice the one before */
  int reset_ms;             /* a life with so much work begins with first_ms again */
};

/* 1 s, 60 s, 60 s. */
extern const struct backoff_times backoff_usual;

struct backoff {
  int deaths; /* in a row, without a life of reset_ms between them */
};

/* Counts a death after `worked_ms` of work. Returns the pause before the next start, in ms. */
int backoff_next_ms(struct backoff *self, const struct backoff_times *times, int64_t worked_ms);

/* Whether the log of this death is shown: of the 1st, 2nd, 4th, 8th ... in a row, so that one that
 * dies for days does not flood the terminal. */
bool backoff_shows_log(const struct backoff *self);

#endif
