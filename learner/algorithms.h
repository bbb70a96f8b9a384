/* What --agent names: an algorithm with the policy that acts for it, a row each. Adding one is told
 * in docs/algorithms.md.
 *
 * Upstream: learner/options.c (the option's choices), learner/run_parts.c. Thread: any (constants).
 */
#ifndef ACORN_LEARNER_ALGORITHMS_H
#define ACORN_LEARNER_ALGORITHMS_H

#include <stdbool.h>

/* X(name, algorithm, policy, network, help). Those that act without learning have no algorithm and
 * bring a network of their own; the others ("") have that of --network. */
#define ALGORITHMS(X)                                                                    \
  X(vtrace, &algorithm_vtrace, &policy_categorical, "", "V-trace actor-critic (IMPALA)") \
  X(random, NULL, &policy_categorical, "random", "acts uniformly and learns nothing")    \
  X(scripted, NULL, &policy_categorical, "scripted", "plays CartPole by a rule, learns nothing")

struct algorithm;
struct policy;

struct algorithm_row {
  const char *name, *help;
  const struct algorithm *algorithm; /* NULL: nothing is learned */
  const struct policy *policy;
  const char *network; /* "": that of --network */
};

/* Of a value of --agent, which the option's choices have checked. */
const struct algorithm_row *algorithms_find(const char *name);

#endif
