/* Agents and networks by their names: the rows of ALGORITHMS and NETWORKS without the operations,
 * as the launcher does not load the kernels.
 *
 * Upstream: presets.c, options_check.c. Downstream: learn/algorithms.h, network/names.h. Threads:
 * any. */
#ifndef ACORN_LEARNER_RUN_AGENTS_H
#define ACORN_LEARNER_RUN_AGENTS_H

#include "learner/run/options.h"

/* Whether a word is in a list that is separated by "|"; an empty list has all. */
bool agents_list_has(const char *list, const char *word);

/* Whether an option is of other agents: its heading is in their rows and not in this one's. */
bool learner_option_is_foreign(const struct option *option, const struct learner_options *options);

/* Adds the agents that have the option, and are not in it yet, to a list separated by "|". */
void agents_list_with(char list[256], const struct option *option);

/* --network=auto. */
bool learner_options_chooses_network(const struct learner_options *options);

/* --lstm_size that is left to the network's kind. */
int learner_options_default_lstm_size(const struct learner_options *options);

/* Whether its network has a memory, as far as that is known: --network=auto may choose one. */
bool learner_options_remembers(const struct learner_options *options);

#endif
