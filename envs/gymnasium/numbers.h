/* The numbers that an environment of Gymnasium reports of an episode: scalars of its last info.
 * Upstream: game.c. Thread: with Python's lock. */
#ifndef ACORN_ENVS_GYMNASIUM_NUMBERS_H
#define ACORN_ENVS_GYMNASIUM_NUMBERS_H

#include "envs/env.h"
#include "envs/gymnasium/interpreter.h"

struct numbers {
  PyObject *kept; /* of the last episode: a list of (name, value), which has the names; or NULL */
  struct acorn_number number[ACORN_MAX_MORE_NUMBERS];
};

/* Gives the row the numbers of `info`; they stay until the next call. -1 with an exception set. */
int numbers_read(struct numbers *numbers, PyObject *info, struct acorn_row *row);
void numbers_deinit(struct numbers *numbers);

#endif
