/* What --agent names: an algorithm with the policy that acts for it, a row each. docs/algorithms.md
 * tells how to add one.
 *
 * Upstream: run/options.c (the option's choices), run/agents.c, run/run.c. Thread: any
 * (constants). */
#ifndef ACORN_LEARNER_LEARN_ALGORITHMS_H
#define ACORN_LEARNER_LEARN_ALGORITHMS_H

#include <stdio.h>

#include "common/base/space.h"
#include "learner/learn/algorithm_options.h"

enum algorithm_pace { ASYNCHRONOUS, SYNCHRONOUS, REPLAYED };

/* X(name, algorithm, policies, network, pace, evaluators, options, help). policies: of which the
 * first that fits the action space acts. pace: ASYNCHRONOUS: acting goes on while the trainer
 * computes, and each window is trained on once; SYNCHRONOUS: acting waits for every update, and the
 * windows of all environments close together; REPLAYED: windows go to a replay, and acting and
 * training keep to --replay_ratio. evaluators: those that a launcher starts unless told otherwise;
 * 1 where training episodes measure little because many of their actions are random by design.
 * options: headings of the option table, separated by "|": an agent that learns refuses what stands
 * under those of others alone. Those that act without learning have no algorithm and bring a
 * network of their own; the others ("") have that of --network. */
#define ALGORITHMS(X)                                                                            \
  X(vtrace, &algorithm_vtrace, policies_of_probabilities, "", ASYNCHRONOUS, 0,                   \
    ACTOR_CRITIC_HEADING "|" CURIOSITY_HEADING "|" VTRACE_HEADING,                               \
    "V-trace actor-critic (IMPALA)")                                                             \
  X(a2c, &algorithm_a2c, policies_of_probabilities, "", SYNCHRONOUS, 0,                          \
    ACTOR_CRITIC_HEADING "|" CURIOSITY_HEADING,                                                  \
    "synchronous advantage actor-critic with GAE(lambda)")                                       \
  X(ppo, &algorithm_ppo, policies_of_probabilities, "", SYNCHRONOUS, 0,                          \
    ACTOR_CRITIC_HEADING "|" CURIOSITY_HEADING "|" PPO_HEADING,                                  \
    "proximal policy optimisation: several epochs of minibatches over each batch")               \
  X(r2d2, &algorithm_q_learning, policies_of_values, "", REPLAYED, 1, Q_LEARNING_HEADINGS,       \
    "recurrent Q-learning from a prioritised replay")                                            \
  X(dqn, &algorithm_q_learning, policies_of_values, "", REPLAYED, 1, Q_LEARNING_HEADINGS,        \
    "Q-learning from a replay")                                                                  \
  X(double_dqn, &algorithm_q_learning, policies_of_values, "", REPLAYED, 1, Q_LEARNING_HEADINGS, \
    "dqn with double Q-learning")                                                                \
  X(rainbow, &algorithm_q_learning, policies_of_values, "", REPLAYED, 1, Q_LEARNING_HEADINGS,    \
    "dqn with all of Rainbow: double, dueling, prioritised, n-step, distributional, noisy")      \
  X(sac, &algorithm_sac, policies_of_squashed, "", REPLAYED, 0, SAC_HEADING "|" REPLAY_HEADING,  \
    "soft actor-critic: two critics and a policy of high entropy, from a replay")                \
  X(random, NULL, policies_of_choices, "random", ASYNCHRONOUS, 0, "",                            \
    "acts uniformly and learns nothing")                                                         \
  X(scripted, NULL, policies_of_choices, "scripted", ASYNCHRONOUS, 0, "",                        \
    "plays CartPole by a rule, learns nothing")

struct algorithm;
struct policy;

extern const struct algorithm algorithm_a2c, algorithm_ppo, algorithm_q_learning, algorithm_sac,
    algorithm_vtrace;
extern const struct policy policy_categorical, policy_epsilon_greedy, policy_normal,
    policy_squashed_normal;
/* The last followed by NULL. All of a list have the same `action_values`. */
extern const struct policy *const policies_of_probabilities[],
    *const policies_of_values[], *const policies_of_choices[], *const policies_of_squashed[];

struct algorithm_row {
  const char *name, *help;
  const struct algorithm *algorithm; /* NULL: nothing is learned */
  const struct policy *const *policies;
  const char *network; /* "": that of --network */
  enum algorithm_pace pace;
  int evaluators; /* that a run has unless told otherwise */
};

/* Of a value of --agent, which the option's choices have checked. */
const struct algorithm_row *algorithms_find(const char *name);

/* The policy that acts in this space; NULL: none of the agent's does. */
const struct policy *algorithms_policy(const struct algorithm_row *row, const struct space *space);

/* "vtrace, a2c, ppo": those that learn and act in this space. */
void algorithms_for(char names[256], const struct space *space);

/* Prints what --help=algorithms does, for docs/algorithms.md: each algorithm with its pace, its
 * policies and its loss terms; then what acts without learning. */
void algorithms_markdown(FILE *out);

#endif
