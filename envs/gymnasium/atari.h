/* The games of the Atari 2600, as DeepMind and SEED RL prepare them: an action is held for four
 * frames; the last two become one grey picture of 84 x 84 bytes, which is all that a step returns
 * (the learner stacks). Episodes begin with 1 to 30 frames without action and are cut after 108,000
 * frames. Rewards are the game's own.
 * ale-py emulates; what follows the emulator is here.
 * Source: Machado et al. 2018, "Revisiting the Arcade Learning Environment", section 3. */
#ifndef ACORN_ENVS_GYMNASIUM_ATARI_H
#define ACORN_ENVS_GYMNASIUM_ATARI_H

#include "envs/env.h"

/* The functions; the name is the caller's to set. */
extern const struct acorn_env atari_functions;

#endif
