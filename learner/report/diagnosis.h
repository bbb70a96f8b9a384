/* Says when a run does not learn: from facts of the run, with what to try; once of its returns, and
 * once of its values.
 *
 * Only what a run that learns does not show: returns that have not risen since its first episodes
 * once a third of its budget is used, or are below them, alone or with what explains it (no
 * reward, a policy without randomness or of nothing else, updates that end at once), and values
 * beyond every return. The
 * figures are plain numbers, so that tests can set up every cause.
 * Thread: main. Upstream: vitals.c. */
#ifndef ACORN_LEARNER_REPORT_DIAGNOSIS_H
#define ACORN_LEARNER_REPORT_DIAGNOSIS_H

#include <stdbool.h>
#include <stddef.h>

#include "learner/episodes/progress.h"

enum diagnosis_cause {
  DIAGNOSIS_NONE,
  DIAGNOSIS_NO_REWARD, /* every return was 0 */
  DIAGNOSIS_COLLAPSED, /* flat, and the policy has no randomness left */
  DIAGNOSIS_UNIFORM,   /* flat, and the policy is as random as at first */
  DIAGNOSIS_STOPPED,   /* flat, and most updates end with their first step (--target_kl) */
  DIAGNOSIS_FLAT,
  DIAGNOSIS_WORSE,  /* returns below the first ones */
  DIAGNOSIS_VALUES, /* values beyond all returns */
  DIAGNOSIS_LEARNS  /* what was said of the returns holds no longer */
};

struct diagnosis_figures {
  double share_done;                   /* of the budget; 0: it has none */
  struct progress_returns first, last; /* PROGRESS_FIRST, PROGRESS_TRAIN */
  double entropy, most_entropy;        /* in nats, of the newest update; most: of a uniform
                                           policy. NaN: it has none that is bounded */
  double value;                        /* mean of the newest update, in rewards; NaN: none */
  double discount;                     /* gamma */
  int64_t updates, updates_stopped;    /* since the start; see update_stats */
};

/* What is known of the run so far; zeroed at first. */
struct diagnosis {
  bool has_returns;
  double best;    /* mean of a window */
  double largest; /* size of a return */
  int beyond;     /* notes in a row with values beyond all returns */
  bool said_returns, said_values, withdrawn;
};

/* Notes the figures; returns a cause that is to be said now, and writes it as a sentence with what
 * to try. DIAGNOSIS_NONE: nothing, `text` is left alone. */
enum diagnosis_cause diagnosis_note(struct diagnosis *diagnosis, char *text, size_t bytes,
                                    const struct diagnosis_figures *figures);

#endif
