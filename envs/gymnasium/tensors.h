/* From Python's observations to rows.
 * Upstream: game.c. Thread: whoever holds Python's lock. */
#ifndef ACORN_ENVS_GYMNASIUM_TENSORS_H
#define ACORN_ENVS_GYMNASIUM_TENSORS_H

#include "envs/env.h"
#include "envs/gymnasium/interpreter.h"

/* One tensor, as adapter.py's leaves_of describes it. */
struct leaf {
  char name[ACORN_NAME_BYTES];
  char source[16]; /* the dtype that Python's object must have; "": a whole number */
  struct acorn_tensor tensor;
  size_t elements;
  long long first, count; /* of a whole number: what becomes 0, and how many values there are */
  PyObject *path;         /* keys from the observation to this part; owned */
};

/* Reads one description. 0, or -1 with an exception set. */
int leaf_init(struct leaf *leaf, PyObject *description);
void leaf_deinit(struct leaf *leaf);

/* Writes this part of the observation to `out`. 0, or -1 with an exception set: a part that is not
 * there, or is not what the space says. */
int leaf_write(const struct leaf *leaf, PyObject *observation, void *out);

#endif
