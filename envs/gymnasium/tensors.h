/* From Python's observations to rows.
 * Upstream: game.c. Thread: the one that holds Python's lock. */
#ifndef ACORN_ENVS_GYMNASIUM_TENSORS_H
#define ACORN_ENVS_GYMNASIUM_TENSORS_H

#include "envs/env.h"
#include "envs/gymnasium/interpreter.h"

/* A number from `first` on that is one of `count` values. */
struct choice {
  long long first, count;
};

/* One tensor, as spaces.py's leaves_of describes it. */
struct leaf {
  char name[ACORN_NAME_BYTES];
  char source[16]; /* the dtype that Python's object must have (of float32, float64 is cast); "": a
                      whole number */
  int rank, shape[ACORN_MAX_RANK]; /* of Python's object */
  size_t elements;                 /* likewise */
  struct acorn_tensor tensor;
  double low, high;      /* become 0..1, of bytes 0..255; both 0: taken as it is */
  struct choice *choice; /* (num_choices) of numbers that name something; owned */
  int num_choices;       /* 0: an array of numbers */
  int is_mask;           /* 1: of actions, which becomes 0 and 1 */
  PyObject *path;        /* keys from what reset and step return to this part; owned */
};

/* Reads one description. 0, or -1 with an exception set. */
int leaf_init(struct leaf *leaf, PyObject *description);
void leaf_deinit(struct leaf *leaf);

/* Writes this part of what reset or step returned to `out`. 0, or -1 with an exception set: a part
 * that is not there, or is not what the space says. */
int leaf_write(const struct leaf *leaf, PyObject *result, void *out);

#endif
