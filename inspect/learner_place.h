/* Finds a learner's address: from a run folder or HOST:PORT; why it does not answer.
 * Upstream: inspect/status.c. Downstream: common/cluster/probe.h. Thread: one. */
#ifndef ACORN_INSPECT_LEARNER_PLACE_H
#define ACORN_INSPECT_LEARNER_PLACE_H

#include <limits.h>

#include "common/base/status.h"

struct learner_place {
  char address[PATH_MAX + 16]; /* to call: "unix:PATH" or "HOST:PORT" */
  char run_folder[PATH_MAX];   /* that it was read from; "": the user gave the address */
};

/* `word`: an address; a run folder, whose file `address` the learner has written; a folder of them:
 * the newest active run in it; or NULL: the same of `runs`. Errors: NOT_FOUND, with the
 * path: no run, or one that is over; INVALID: `word` is neither. */
MUST_CHECK enum status learner_place_find(struct learner_place *place, const char *word,
                                          const char *runs, struct error *error);

/* OK if any program listens there. Errors: UNAVAILABLE. */
MUST_CHECK enum status learner_place_listens(const struct learner_place *place, int timeout_ms,
                                             struct error *error);

/* Why it has not answered: never OK. Takes up to `timeout_ms`. Errors: UNAVAILABLE: nothing listens
 * there any more, or it is busy; MISMATCH: another program listens there. */
MUST_CHECK enum status learner_place_explain(const struct learner_place *place, int timeout_ms,
                                             struct error *error);

#endif
