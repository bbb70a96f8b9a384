/* The effective options of a run, written to its folder.
 *
 * Sources: the command line, the run that is continued or evaluated, a cluster's TF_CONFIG, the
 * presets of the environment. Upstream: main.c. Downstream: options.h. Thread: main. */
#ifndef ACORN_LEARNER_RUN_RUN_OPTIONS_H
#define ACORN_LEARNER_RUN_RUN_OPTIONS_H

#include "learner/run/options.h"
#include "learner/train/update.h"

/* Reads and checks them. *differences: what a resumed run changes, a line each; NULL: it is none.
 * Owner: the caller, who deinits the options too, whatever comes back. DONE: it was --help, which
 * is written. Errors: MISMATCH: another network or optimiser than that of the run which is
 * continued or evaluated; else what a user can mend. */
MUST_CHECK enum status run_options_read(struct learner_options *options, char **differences,
                                        int argc, char **argv, struct error *error);

/* What the options say of an update. Its strings are theirs. */
struct update_config run_options_of_update(const struct learner_options *options);

/* Logs and frees the differences. Once the folder is ours: one that another learner uses is not
 * resumed. */
void run_options_say_differences(char *differences);

/* Writes the effective options to config.txt in the folder, for people, for evaluation and for
 * resuming. Errors: IO: those of before are still there. */
MUST_CHECK enum status run_options_write(const struct learner_options *options, const char *folder,
                                         struct error *error);

#endif
