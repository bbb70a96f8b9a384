/* The options of SAC alone: members and rows.
 * Upstream: algorithm_options.h. Thread: start only. */
#ifndef ACORN_LEARNER_LEARN_SAC_OPTIONS_H
#define ACORN_LEARNER_LEARN_SAC_OPTIONS_H

struct sac_options {
  double polyak, temperature, entropy_per_action;
};

/* Their heading in the table. */
#define SAC_HEADING "SAC (sac)"

/* See common/base/option_rows.h; `at` is the member of the program's options. */
#define SAC_ROWS(at)                                                                              \
  FLOAT("polyak", at.polyak, "0.005", 1e-9, 1, SAC_HEADING,                                       \
        "share of the way that the target critics go towards the critics with every update"),     \
      FLOAT("temperature", at.temperature, "0", 0, 1e9, SAC_HEADING,                              \
            "what a nat of entropy is worth, in scaled rewards; 0: learned, from 1 on, so that "  \
            "the policy keeps the entropy that is wanted"),                                       \
      FLOAT("entropy_per_action", at.entropy_per_action, "-1", -1e3, 1e3, SAC_HEADING,            \
            "the entropy that is wanted, in nats for each number of an action, where bounds are " \
            "-1 and 1")

#endif
