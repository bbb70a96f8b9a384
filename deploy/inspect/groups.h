/* Groups runs that are seeds of one experiment: same environment, agent and hyperparameters.
 * config.txt has them.
 * Upstream: deploy/inspect/curves.c. Thread: one. */
#ifndef ACORN_DEPLOY_INSPECT_GROUPS_H
#define ACORN_DEPLOY_INSPECT_GROUPS_H

#include "learner/run/options.h"

enum { GROUPS_MAX_RUNS = 1024, GROUPS_LABEL_BYTES = 256 };

struct groups {
  struct learner_options options[GROUPS_MAX_RUNS]; /* (num_runs) */
  int group[GROUPS_MAX_RUNS];                      /* (num_runs) of the run */
  int first_run[GROUPS_MAX_RUNS];                  /* (count) the first run of a group */
  int num_runs, count;
};

/* Adds a run. Errors: INVALID: its config.txt is missing or cannot be understood. */
MUST_CHECK enum status groups_add(struct groups *groups, const char *folder, struct error *error);
void groups_deinit(struct groups *groups);

/* "cartpole vtrace", with those options by which it differs from other groups of that environment
 * and agent: "cartpole vtrace learning_rate=0.01". */
void groups_label(char label[GROUPS_LABEL_BYTES], const struct groups *groups, int group);

#endif
