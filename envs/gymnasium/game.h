/* Any environment with Gymnasium's functions, stepped from C. */
#ifndef ACORN_ENVS_GYMNASIUM_GAME_H
#define ACORN_ENVS_GYMNASIUM_GAME_H

#include "envs/env.h"

/* The functions; the name is the caller's to set. */
extern const struct acorn_env game_functions;

#endif
