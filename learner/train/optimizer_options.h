/* The options of the optimiser: members and rows.
 * Upstream: run/options.h, optimizer.h. Thread: start only. */
#ifndef ACORN_LEARNER_TRAIN_OPTIMIZER_OPTIONS_H
#define ACORN_LEARNER_TRAIN_OPTIMIZER_OPTIONS_H

#include <stdbool.h>

struct optimizer_options {
  char *name; /* "adam", "rmsprop" */
  char *learning_rate_decay;
  double learning_rate, max_gradient_norm;
  double adam_beta1, adam_beta2, adam_epsilon;
  bool adam_epsilon_hat; /* in TensorFlow's form, see device.h */
  double rmsprop_decay, rmsprop_momentum, rmsprop_epsilon;
};

#define OPTIMIZER_HEADING "Optimiser"

#define LEARNING_RATE_ROW(member)                                                              \
  {                                                                                            \
    "learning_rate", "lr", OPTION_FLOAT, AT(member), "0.001", 0, 100, NULL, OPTIMIZER_HEADING, \
        "learning rate"                                                                        \
  }

/* See common/base/option_rows.h; `at` is the member of the program's options. */
#define OPTIMIZER_ROWS(at)                                                                   \
  CHOICE("optimizer", at.name, "adam", "adam|rmsprop", OPTIMIZER_HEADING,                    \
         "optimiser; rmsprop is IMPALA's"),                                                  \
      LEARNING_RATE_ROW(at.learning_rate),                                                   \
      CHOICE("learning_rate_decay", at.learning_rate_decay, "none", "none|linear",           \
             OPTIMIZER_HEADING, "linear: to 0 at total_steps"),                              \
      FLOAT("max_gradient_norm", at.max_gradient_norm, "40", 0, 1e9, OPTIMIZER_HEADING,      \
            "clip of the gradient's global norm; 0: none"),                                  \
      FLOAT("adam_beta1", at.adam_beta1, "0.9", 0, 0.999999, OPTIMIZER_HEADING,              \
            "decay of the mean"),                                                            \
      FLOAT("adam_beta2", at.adam_beta2, "0.999", 0, 0.999999, OPTIMIZER_HEADING,            \
            "decay of the square"),                                                          \
      FLOAT("adam_epsilon", at.adam_epsilon, "1e-7", 1e-15, 1, OPTIMIZER_HEADING,            \
            "added to the root of the bias-corrected mean square"),                          \
      BOOL("adam_epsilon_hat", at.adam_epsilon_hat, "false", OPTIMIZER_HEADING,              \
           "adam_epsilon is TensorFlow's epsilon hat: added to the root of the mean square " \
           "before the correction"),                                                         \
      FLOAT("rmsprop_decay", at.rmsprop_decay, "0.99", 0, 0.999999, OPTIMIZER_HEADING,       \
            "decay of the square"),                                                          \
      FLOAT("rmsprop_momentum", at.rmsprop_momentum, "0", 0, 0.999999, OPTIMIZER_HEADING,    \
            "momentum"),                                                                     \
      FLOAT("rmsprop_epsilon", at.rmsprop_epsilon, "0.1", 1e-15, 10, OPTIMIZER_HEADING,      \
            "added under the root")

#endif
