/* The options of Q-learning, r2d2, dqn, double_dqn and rainbow: members and rows.
 * Upstream: algorithm_options.h. Thread: start only. */
#ifndef ACORN_LEARNER_LEARN_Q_LEARNING_OPTIONS_H
#define ACORN_LEARNER_LEARN_Q_LEARNING_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct q_learning_options {
  int64_t n_steps, target_update, burn_in;
  bool double_q, partial_returns;
  double value_rescaling, huber, priority_eta;
};

/* Headings in the table of options that only these agents have. */
#define Q_LEARNING_HEADING "Q-learning (r2d2, dqn, double_dqn, rainbow)"
#define REPLAY_HEADING "Replay (r2d2, dqn, double_dqn, rainbow, sac)"
#define PRIORITY_HEADING "Prioritised replay (r2d2, dqn, double_dqn, rainbow)"
#define EXPLORATION_HEADING "Exploration (r2d2, dqn, double_dqn, rainbow)"
#define Q_LEARNING_HEADINGS \
  Q_LEARNING_HEADING "|" REPLAY_HEADING "|" PRIORITY_HEADING "|" EXPLORATION_HEADING

/* See common/base/option_rows.h; `at` is the member of the program's options. */
#define Q_LEARNING_ROWS(at)                                                                      \
  INT("n_steps", at.n_steps, "1", 1, 1000, Q_LEARNING_HEADING,                                   \
      "rewards in a return before the target network's value"),                                  \
      BOOL("partial_returns", at.partial_returns, "true", Q_LEARNING_HEADING,                    \
           "the last n_steps - 1 steps of a window count too, with shorter returns"),            \
      BOOL("double_q", at.double_q, "true", Q_LEARNING_HEADING,                                  \
           "double Q-learning: the online network chooses the action that the target network "   \
           "values"),                                                                            \
      INT("target_update", at.target_update, "2500", 1, 1e15, Q_LEARNING_HEADING,                \
          "environment steps between two copies of the parameters into the target network; as "  \
          "the nearest number of updates, at least one"),                                        \
      FLOAT("value_rescaling", at.value_rescaling, "0", 0, 1, Q_LEARNING_HEADING,                \
            "epsilon of the rescaling h of returns (R2D2: 0.001); 0: none"),                     \
      FLOAT("huber", at.huber, "0", 0, 1e9, Q_LEARNING_HEADING,                                  \
            "TD errors beyond this count linearly; 0: all are squared"),                         \
      INT("burn_in", at.burn_in, "0", 0, 10000, Q_LEARNING_HEADING,                              \
          "steps before an unroll that only bring the recurrent state up to date; by default 0 " \
          "without an LSTM"),                                                                    \
      FLOAT("priority_eta", at.priority_eta, "0.9", 0, 1, Q_LEARNING_HEADING,                    \
            "priority of a window = eta max + (1 - eta) mean of its TD errors")

#endif
