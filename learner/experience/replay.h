/* The source of off-policy batches: prioritised replay. A window that closes stays where it is, in
 * the pages, and gets a leaf in a tree of priorities; a batch is drawn from the tree, and its
 * windows are pinned until they are gathered. A window is there until a page of it is reused: then
 * its leaf becomes 0, and a priority that the trainer gives it later is dropped and counted. A
 * batch may hold a window more than once.
 *
 * Rate: `ratio` windows are sampled for each one that is inserted, counted from when the replay
 * first holds min_windows. Sampling waits until as many windows have come; inserting, and with it
 * acting, waits while sampling is more than `band` windows behind. With drain it waits for all that
 * are due; in lockstep inserting without room does so, too. Both waits are measured.
 * Upstream: learner/run/run_experience.c. Threads: as in source.h.
 * Guarded by: pages_lock, with two condition variables. Gathering runs outside of it.
 * Source: Schaul et al. 2016, section 3.3; Kapturowski et al. 2019, section 2.3. */
#ifndef ACORN_LEARNER_EXPERIENCE_REPLAY_H
#define ACORN_LEARNER_EXPERIENCE_REPLAY_H

#include "common/metrics/metrics.h"
#include "learner/experience/source.h"
#include "learner/experience/td_priority.h"

struct replay_config {
  int N;                       /* windows of a batch */
  int64_t min_windows;         /* before the first batch */
  double ratio, band;          /* band: at least replay_least_band */
  double exponent, importance; /* probability ~ priority^exponent; weight ~ (1/it)^importance,
                                         the largest of a batch is 1 */
  double importance_end;       /* at the end of the run; only with share_done */
  double (*share_done)(const void *context); /* of the run, 0 to 1; NULL: importance stays */
  const void *context;
  bool uniform;     /* a batch comes back without priorities: all stay as they are */
  bool initial_max; /* a new window gets the largest priority of late, not its own */
  int burn_in;      /* first steps of a window, which have no TD errors */
  struct td_priority_config priority; /* of a new window; its T steps follow the burn-in */
  bool next_states; /* a batch has the state that is stored at the next window's start, too */
  uint64_t seed;
  int lent_at_once; /* batches that the trainer may hold: 1, or 2; 0 counts as 1 */
  bool lockstep;    /* a batch is drawn only while inference waits for all that are due: the same
                       windows each time */
  struct device *saving; /* of the thread that saves or loads; NULL: neither is done. Borrowed */
  const struct device_inputs *inputs;         /* of what is loaded; borrowed with `saving` */
  struct metric *give_wait_us, *take_wait_us; /* of each wait; may be NULL, as the next */
  /* Of each window: NaN and infinity as the smallest priority; steps filed since its page was begun
   * when it was sampled. */
  struct metric *initial_priority, *updated_priority, *window_age_steps;
};

/* The least band with which neither side waits for ever: where one inference batch may close so
 * many windows. */
double replay_least_band(int N, double ratio, int closing);

/* gathering: the trainer's device; filing: inference's, which writes the pages. Borrows all.
 * Owner: the caller, with source_destroy, before the pages go. */
struct source *replay_create(struct device *gathering, struct device *filing, struct pages *pages,
                             const struct replay_config *config);

#endif
