#include "common/base/space.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

size_t dtype_bytes(enum dtype dtype) {
  return dtype == DTYPE_UINT8 ? 1 : 4;
}

size_t space_tensor_bytes(const struct space_tensor *tensor) {
  size_t bytes = dtype_bytes(tensor->dtype);
  for (int i = 0; i < tensor->rank; i++) bytes *= (size_t)tensor->shape[i];
  return bytes;
}

int space_action_bytes(const struct space *space) {
  int choices = space_num_choices(&space->choices);
  return (space->discrete ? choices : space->box) * (int)sizeof(float); /* as large as an int32 */
}

/* ---- check */

float space_half_width(const struct space *space, int i) {
  float width = space->high[i] - space->low[i];
  return isfinite(width) ? width / 2 : 0;
}

void space_set_name(struct space_tensor *tensor, const char *name) {
  size_t length = strnlen(name, SPACE_NAME_BYTES);
  memset(tensor->name, 0, sizeof(tensor->name));
  memcpy(tensor->name, name, length);
}

/* What is wrong with tensor i, or NULL. */
static const char *tensor_fault(const struct space *space, int i) {
  const struct space_tensor *tensor = &space->tensor[i];
  if (!tensor->name[0]) return "has no name";
  if (!memchr(tensor->name, 0, SPACE_NAME_BYTES)) return "has a name of more than 31 characters";
  for (const char *c = tensor->name; *c; c++)
    if (*c <= ' ' || *c > '~') return "has a name that is not visible ASCII";
  for (int j = 0; j < i; j++)
    if (strcmp(space->tensor[j].name, tensor->name) == 0) return "has the name of an earlier one";
  if (tensor->dtype < DTYPE_UINT8 || tensor->dtype > DTYPE_FLOAT32)
    return "has a dtype that is none of uint8 (1), int32 (2), float32 (3)";
  if (tensor->rank < 0 || tensor->rank > SPACE_MAX_RANK) return "has a rank that is not in 0..4";
  double bytes = (double)dtype_bytes(tensor->dtype);
  for (int d = 0; d < tensor->rank; d++) {
    if (tensor->shape[d] < 1) return "has a shape with a number below 1";
    bytes *= tensor->shape[d];
  }
  return bytes > SPACE_MAX_OBSERVATION_BYTES ? "has more than 64 MiB" : NULL;
}

/* A space of several choices says in `discrete` how many actions these have together. */
static enum status check_choices(const struct space *space, struct error *error) {
  const struct space_choices *choices = &space->choices;
  int64_t sum = 0;
  if (choices->count == 0) return STATUS_OK;
  if (choices->count < 1 || choices->count > SPACE_MAX_CHOICES)
    return status_fail(error, STATUS_INVALID, "an action of %d choices; there may be 1..%d",
                       choices->count, SPACE_MAX_CHOICES);
  for (int c = 0; c < choices->count; c++) {
    sum += choices->among[c];
    if (choices->among[c] >= 1 && sum <= SPACE_MAX_DISCRETE) continue;
    return status_fail(error, STATUS_INVALID,
                       "choice %d of the action is among %d; a choice is among 1 or more, all "
                       "together have at most %d",
                       c, choices->among[c], SPACE_MAX_DISCRETE);
  }
  if (sum == space->discrete && choices->count > 1) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "discrete actions and choices; only one of discrete, box and choices may be");
}

static enum status check_actions(const struct space *space, struct error *error) {
  enum status status = check_choices(space, error);
  if (status != STATUS_OK) return status;
  if (space->choices.count > 0 && space->box != 0)
    return status_fail(error, STATUS_INVALID,
                       "choices and a box; only one of discrete, box and choices may be");
  if ((space->discrete > 0) == (space->box > 0) || space->box > SPACE_MAX_BOX ||
      space->discrete > SPACE_MAX_DISCRETE)
    return status_fail(error, STATUS_INVALID,
                       "discrete %d and box %d actions, no choices; exactly one must be above 0, "
                       "discrete at most %d, box at most %d",
                       space->discrete, space->box, SPACE_MAX_DISCRETE, SPACE_MAX_BOX);
  for (int i = 0; i < space->box; i++)
    if (!(space->low[i] <= space->high[i] && space->low[i] < INFINITY &&
          space->high[i] > -INFINITY))
      return status_fail(error, STATUS_INVALID,
                         "action %d of the box is in %g..%g, which is no range", i,
                         (double)space->low[i], (double)space->high[i]);
  return STATUS_OK;
}

const char *space_describe_tensor(char out[SPACE_TENSOR_BYTES], const struct space_tensor *tensor) {
  static const char *const names[] = {"unspecified", "uint8", "int32", "float32"};
  const size_t room = SPACE_TENSOR_BYTES;
  int n = snprintf(out, room, "%s[", names[tensor->dtype]);
  for (int i = 0; i < tensor->rank; i++)
    n += snprintf(out + n, room - (size_t)n, i ? ",%d" : "%d", tensor->shape[i]);
  snprintf(out + n, room - (size_t)n, "]");
  return out;
}

int space_mask(const struct space *space) {
  for (int i = 0; space->discrete && i < space->num_tensors; i++)
    if (strcmp(space->tensor[i].name, "action_mask") == 0) return i;
  return -1;
}

bool space_mask_allows(const struct space *space, const uint8_t *mask) {
  for (int c = 0; c < space_num_choices(&space->choices); c++) {
    int among = space_among(&space->choices, c, space->discrete), a = 0;
    while (a < among && !mask[a]) a++;
    if (a == among) return false;
    mask += among;
  }
  return true;
}

static enum status check_mask(const struct space *space, struct error *error) {
  int i = space_mask(space);
  if (i < 0) return STATUS_OK;
  const struct space_tensor *mask = &space->tensor[i];
  if (mask->dtype == DTYPE_UINT8 && space_tensor_bytes(mask) == (size_t)space->discrete &&
      space->num_tensors > 1)
    return STATUS_OK;
  char is[80];
  return status_fail(error, STATUS_INVALID,
                     "the observation 'action_mask' is %s, beside %d others: a mask is uint8[%d], "
                     "a number for each action, beside at least one other",
                     space_describe_tensor(is, mask), space->num_tensors - 1, space->discrete);
}

enum status space_check(const struct space *space, struct error *error) {
  size_t bytes = 0;
  if (space->num_tensors < 1 || space->num_tensors > SPACE_MAX_TENSORS)
    return status_fail(error, STATUS_INVALID, "%d observation tensors, there may be 1..%d",
                       space->num_tensors, SPACE_MAX_TENSORS);
  for (int i = 0; i < space->num_tensors; i++) {
    const char *fault = tensor_fault(space, i);
    if (fault) return status_fail(error, STATUS_INVALID, "observation tensor %d %s", i, fault);
    bytes += space_tensor_bytes(&space->tensor[i]);
  }
  if (bytes > SPACE_MAX_OBSERVATION_BYTES)
    return status_fail(error, STATUS_INVALID, "an observation has more than 64 MiB");
  enum status status = check_actions(space, error);
  return status == STATUS_OK ? check_mask(space, error) : status;
}

/* ---- comparison */

static bool same_tensor(const struct space_tensor *a, const struct space_tensor *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

static enum status compare_tensors(const struct space *a, const char *ours, const struct space *b,
                                   const char *theirs, struct error *error) {
  if (a->num_tensors != b->num_tensors)
    return status_fail(error, STATUS_MISMATCH, "an observation has %d tensors %s, %d %s",
                       a->num_tensors, ours, b->num_tensors, theirs);
  for (int i = 0; i < a->num_tensors; i++) {
    const struct space_tensor *x = &a->tensor[i], *y = &b->tensor[i];
    char left[80], right[80];
    if (strcmp(x->name, y->name) != 0)
      return status_fail(error, STATUS_MISMATCH, "observation %d is named '%s' %s, '%s' %s", i,
                         x->name, ours, y->name, theirs);
    if (!same_tensor(x, y))
      return status_fail(error, STATUS_MISMATCH, "observation '%s' is %s %s, %s %s", x->name,
                         space_describe_tensor(left, x), ours, space_describe_tensor(right, y),
                         theirs);
  }
  return STATUS_OK;
}

const char *space_describe_action(char out[SPACE_ACTION_BYTES], const struct space *space) {
  const struct space_choices *choices = &space->choices;
  int used = snprintf(out, SPACE_ACTION_BYTES, "%s(%d",
                      choices->count    ? "choices"
                      : space->discrete ? "discrete"
                                        : "box",
                      choices->count    ? choices->among[0]
                      : space->discrete ? space->discrete
                                        : space->box);
  for (int c = 1; c < choices->count && used < SPACE_ACTION_BYTES - 16; c++)
    used += snprintf(out + used, SPACE_ACTION_BYTES - (size_t)used, ",%d", choices->among[c]);
  bool is_cut = choices->count && used >= SPACE_ACTION_BYTES - 16;
  snprintf(out + used, SPACE_ACTION_BYTES - (size_t)used, is_cut ? ",...)" : ")");
  return out;
}

static bool same_choices(const struct space_choices *a, const struct space_choices *b) {
  return a->count == b->count &&
         memcmp(a->among, b->among, (size_t)a->count * sizeof a->among[0]) == 0;
}

enum status space_compare(const struct space *a, const char *ours, const struct space *b,
                          const char *theirs, struct error *error) {
  enum status status = compare_tensors(a, ours, b, theirs, error);
  if (status != STATUS_OK) return status;
  char left[SPACE_ACTION_BYTES], right[SPACE_ACTION_BYTES];
  if (a->discrete != b->discrete || a->box != b->box || !same_choices(&a->choices, &b->choices))
    return status_fail(error, STATUS_MISMATCH, "the action is %s %s, %s %s",
                       space_describe_action(left, a), ours, space_describe_action(right, b),
                       theirs);
  for (int i = 0; i < a->box; i++)
    if (a->low[i] != b->low[i] || a->high[i] != b->high[i])
      return status_fail(error, STATUS_MISMATCH, "action %d is in %g..%g %s, %g..%g %s", i,
                         (double)a->low[i], (double)a->high[i], ours, (double)b->low[i],
                         (double)b->high[i], theirs);
  return STATUS_OK;
}
