/* Checks of options that presets.c and options_check.c share. */
#ifndef ACORN_LEARNER_RUN_PRESETS_H
#define ACORN_LEARNER_RUN_PRESETS_H

#include "learner/run/options.h"

/* Whether --preset is for the agent. */
MUST_CHECK enum status learner_options_check_preset(const struct learner_options *options,
                                                    struct error *error);

/* --frame_stack, once the network is known. */
MUST_CHECK enum status learner_options_check_frames(const struct learner_options *options,
                                                    struct error *error);

#endif
