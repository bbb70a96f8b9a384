/* The options of the actor-critics: members and rows.
 * Upstream: algorithm_options.h. Thread: start only. */
#ifndef ACORN_LEARNER_LEARN_ACTOR_CRITIC_OPTIONS_H
#define ACORN_LEARNER_LEARN_ACTOR_CRITIC_OPTIONS_H

#include <stdbool.h>

struct actor_critic_options {
  double lambda, rho_clip, c_clip, pg_rho_clip;
  double baseline_cost, entropy_cost, entropy_cost_decay, target_entropy;
  double entropy_adjustment_speed, kl_cost;
  bool normalize_values;
};

/* Headings in the table of options that only these agents have. */
#define ACTOR_CRITIC_HEADING "Actor-critic (vtrace, a2c, ppo)"
#define VTRACE_HEADING "V-trace (vtrace)"

/* See common/base/option_rows.h; `at` is the member of the program's options. */
#define ACTOR_CRITIC_ROWS(at)                                                                    \
  FLOAT("lambda", at.lambda, "1", 0, 1, ACTOR_CRITIC_HEADING,                                    \
        "lambda of the trace; by default 0.95, but for environments with settings"),             \
      FLOAT("baseline_cost", at.baseline_cost, "0.5", 0, 1e6, ACTOR_CRITIC_HEADING,              \
            "weight of the value loss"),                                                         \
      FLOAT("entropy_cost", at.entropy_cost, "0.01", 0, 1e6, ACTOR_CRITIC_HEADING,               \
            "weight of the entropy bonus; by default 0.02 for vtrace and 0.05 for a2c without "  \
            "settings of the environment, and 0 where actions are numbers, unless "              \
            "--target_entropy is given"),                                                        \
      FLOAT("entropy_cost_decay", at.entropy_cost_decay, "0", 0, 1, ACTOR_CRITIC_HEADING,        \
            "share of entropy_cost that has gone at total_steps, linearly; 0: it stays"),        \
      FLOAT("target_entropy", at.target_entropy, "-1", -1, 1e6, ACTOR_CRITIC_HEADING,            \
            "adjust entropy_cost towards this entropy; -1: off"),                                \
      FLOAT("entropy_adjustment_speed", at.entropy_adjustment_speed, "10", 1e-6, 1e6,            \
            ACTOR_CRITIC_HEADING, "speed of the adjustment to --target_entropy"),                \
      FLOAT("kl_cost", at.kl_cost, "0", 0, 1e6, ACTOR_CRITIC_HEADING,                            \
            "weight of KL(behaviour, policy), which holds the policy to the one that acted; by " \
            "default 1 for vtrace without settings of the environment, where actions are not "   \
            "numbers"),                                                                          \
      BOOL("normalize_values", at.normalize_values, "false", ACTOR_CRITIC_HEADING,               \
           "learn values over the running deviation of their targets, and advantages over "      \
           "theirs; by default true, but for cartpole, tmaze, and atari with vtrace or a2c"),    \
      FLOAT("rho_clip", at.rho_clip, "1", 0, 1e9, VTRACE_HEADING,                                \
            "clip of the value target's importance weight"),                                     \
      FLOAT("c_clip", at.c_clip, "1", 0, 1e9, VTRACE_HEADING,                                    \
            "clip of the trace's importance weight"),                                            \
      FLOAT("pg_rho_clip", at.pg_rho_clip, "1", 0, 1e9, VTRACE_HEADING,                          \
            "clip of the policy gradient's importance weight")

#endif
