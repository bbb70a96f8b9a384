/* The options of curiosity: members and rows.
 * Upstream: algorithm_options.h. Thread: start only. */
#ifndef ACORN_LEARNER_LEARN_CURIOSITY_OPTIONS_H
#define ACORN_LEARNER_LEARN_CURIOSITY_OPTIONS_H

struct curiosity_options {
  char *kind;
  double intrinsic_discount, intrinsic_weight, extrinsic_weight, predictor_share;
};

/* Their heading in the table. */
#define CURIOSITY_HEADING "Curiosity (vtrace, a2c, ppo)"

/* See common/base/option_rows.h; `at` is the member of the program's options. */
#define CURIOSITY_ROWS(at)                                                                     \
  CHOICE("curiosity", at.kind, "none", "none|rnd", CURIOSITY_HEADING,                          \
         "reward what is new, too, by random network distillation (rnd): for environments "    \
         "whose own rewards are rarely met"),                                                  \
      FLOAT("intrinsic_discount", at.intrinsic_discount, "0.99", 0, 1, CURIOSITY_HEADING,      \
            "gamma of these rewards, whose returns go on over the ends of episodes"),          \
      FLOAT("intrinsic_weight", at.intrinsic_weight, "1", 0, 1e9, CURIOSITY_HEADING,           \
            "weight of the advantages of these rewards"),                                      \
      FLOAT("extrinsic_weight", at.extrinsic_weight, "2", 0, 1e9, CURIOSITY_HEADING,           \
            "weight of the advantages of the environment's rewards, with --curiosity=rnd"),    \
      FLOAT("predictor_share", at.predictor_share, "0.25", 1e-6, 1, CURIOSITY_HEADING,         \
            "share of the steps, drawn at random, that the predictor of what is known learns " \
            "from")

#endif
