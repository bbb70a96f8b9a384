/* What an environment looks like from outside: the tensors of an observation, and the action. The
 * one definition, which the wire, environments, experience and networks share.
 *
 * Upstream: common/wire/wire.h, learner/device/steps.h. Thread: any (plain data).
 * Invariant: exactly one of `discrete` and `box` is above 0. */
#ifndef ACORN_COMMON_BASE_SPACE_H
#define ACORN_COMMON_BASE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum {
  SPACE_MAX_TENSORS = 8,
  SPACE_MAX_RANK = 4,
  SPACE_MAX_BOX = 64,
  SPACE_MAX_CHOICES = 64,
  SPACE_MAX_DISCRETE = 65536,
  SPACE_MAX_OBSERVATION_BYTES = 64 << 20, /* of one environment */
  SPACE_NAME_BYTES = 32
};

enum dtype { DTYPE_UINT8 = 1, DTYPE_INT32 = 2, DTYPE_FLOAT32 = 3 };

/* One named part of an observation: little-endian, C order. */
struct space_tensor {
  char name[SPACE_NAME_BYTES];
  enum dtype dtype;
  int rank; /* 0: a single number */
  int shape[SPACE_MAX_RANK];
};

/* A discrete action of several choices that are made together, each among so many. A row of numbers
 * for it (logits, a mask) has those of the first choice, then those of the second, and so on. */
struct space_choices {
  int count; /* 2 or more; 0: one choice, among all */
  int among[SPACE_MAX_CHOICES];
};

/* Plain data, compared field by field. */
struct space {
  int num_tensors;
  struct space_tensor tensor[SPACE_MAX_TENSORS];
  int discrete; /* number of actions, over all choices together, or 0 for a box */
  struct space_choices choices;
  int box; /* dimensions of a box, or 0 */
  float low[SPACE_MAX_BOX], high[SPACE_MAX_BOX];
};

size_t dtype_bytes(enum dtype dtype);
size_t space_tensor_bytes(const struct space_tensor *tensor);

/* Choices of a discrete action: 1 or more. */
static inline int space_num_choices(const struct space_choices *choices) {
  return choices->count ? choices->count : 1;
}
/* What choice c is among, of `all` actions. */
static inline int space_among(const struct space_choices *choices, int c, int all) {
  return choices->count ? choices->among[c] : all;
}

/* Bytes of one action: int32[choices], or float32[box]. */
int space_action_bytes(const struct space *space);

/* Actions to choose from, over all choices together, or numbers of one. */
static inline int space_num_actions(const struct space *space) {
  return space->discrete + space->box;
}

/* Half the distance of the bounds of number i of a box; 0: they are no scale, because they are
 * equal or their distance is no float. */
float space_half_width(const struct space *space, int i);

/* Which tensor says what actions may be chosen, or -1: the one named action_mask, of discrete
 * actions, with a byte for each (of choice after choice), 0: it may not. */
int space_mask(const struct space *space);
/* Whether these bytes of it allow any action, of each choice. */
bool space_mask_allows(const struct space *space, const uint8_t *mask);

/* Sets a tensor's name. One that is too long is cut and not terminated, so that space_check refuses
 * it. */
void space_set_name(struct space_tensor *tensor, const char *name);

/* Whether a space from outside is within the limits above. Reads no tensor and no bound beyond
 * them. Errors: INVALID: "observation tensor 0 has no name". */
MUST_CHECK enum status space_check(const struct space *space, struct error *error);

enum { SPACE_TENSOR_BYTES = 80, SPACE_ACTION_BYTES = 96 };
/* "float32[4]", "uint8[84,84]". Returns out. */
const char *space_describe_tensor(char out[SPACE_TENSOR_BYTES], const struct space_tensor *tensor);
/* "discrete(4)", "box(6)" or "choices(3,2,4)", of which many are cut. Returns out. */
const char *space_describe_action(char out[SPACE_ACTION_BYTES], const struct space *space);

/* STATUS_MISMATCH with a sentence that names the first difference and both sides' values
 * ("observation 'state' is float32[4] here, float32[6] there"). `ours` and `theirs` are the
 * words for the two sides. */
MUST_CHECK enum status space_compare(const struct space *a, const char *ours, const struct space *b,
                                     const char *theirs, struct error *error);

#endif
