#include <math.h>
#include <stdio.h>
#include <string.h>

#include "envs/registry.h"

/* Why the wire would not carry tensor i, or NULL. */
static const char *tensor_fault(const struct acorn_space *space, int i) {
  const struct acorn_tensor *tensor = &space->tensor[i];
  if (!tensor->name || !*tensor->name) return "has no name";
  if (strlen(tensor->name) >= WIRE_NAME_BYTES) return "has a name of more than 31 characters";
  for (const char *c = tensor->name; *c; c++)
    if (*c <= ' ' || *c > '~') return "has a name that is not visible ASCII";
  for (int j = 0; j < i; j++)
    if (strcmp(space->tensor[j].name, tensor->name) == 0) return "has the name of an earlier one";
  if (tensor->dtype < ACORN_UINT8 || tensor->dtype > ACORN_FLOAT32)
    return "has a dtype that is none of ACORN_UINT8, ACORN_INT32, ACORN_FLOAT32";
  if (tensor->rank < 0 || tensor->rank > ACORN_MAX_RANK) return "has a rank that is not in 0..4";
  double bytes = tensor->dtype == ACORN_UINT8 ? 1 : 4;
  for (int d = 0; d < tensor->rank; d++) {
    if (tensor->shape[d] < 1) return "has a shape with a number below 1";
    bytes *= tensor->shape[d];
  }
  return bytes > SPACE_MAX_OBSERVATION_BYTES ? "has more than 64 MiB" : NULL;
}

static enum status check_actions(const struct acorn_space *space, const char *name,
                                 struct error *error) {
  if ((space->discrete > 0) == (space->box > 0) || space->box > ACORN_MAX_BOX ||
      space->discrete > SPACE_MAX_DISCRETE) {
    return status_fail(error, STATUS_INVALID,
                       "environment %s: discrete %d and box %d actions; exactly one must be above "
                       "0, discrete at most %d, box at most %d",
                       name, space->discrete, space->box, SPACE_MAX_DISCRETE, ACORN_MAX_BOX);
  }
  for (int i = 0; i < space->box; i++) {
    if (isfinite(space->low[i]) && isfinite(space->high[i]) && space->low[i] <= space->high[i])
      continue;
    return status_fail(error, STATUS_INVALID,
                       "environment %s: action %d of the box is in %g..%g, which is no range", name,
                       i, (double)space->low[i], (double)space->high[i]);
  }
  return STATUS_OK;
}

/* What a plugin by a third party may get wrong. */
static enum status check_space(const struct acorn_space *space, const struct acorn_env *env,
                               struct error *error) {
  if (space->num_tensors < 1 || space->num_tensors > ACORN_MAX_TENSORS) {
    return status_fail(error, STATUS_INVALID,
                       "environment %s: %d observation tensors, there may be 1..%d", env->name,
                       space->num_tensors, ACORN_MAX_TENSORS);
  }
  for (int i = 0; i < space->num_tensors; i++) {
    const char *fault = tensor_fault(space, i);
    if (!fault) continue;
    return status_fail(error, STATUS_INVALID, "environment %s: observation tensor %d %s", env->name,
                       i, fault);
  }
  return check_actions(space, env->name, error);
}

enum status registry_space(struct space *out, const struct acorn_env *env,
                           const struct acorn_config *config, struct error *error) {
  struct acorn_space space = {.struct_bytes = sizeof space};
  char text[512] = "";
  if (env->space(&space, config, text, sizeof text)) {
    return status_fail(error, STATUS_INVALID, "environment %s: %s", env->name,
                       *text ? text : "its function space failed and gave no reason");
  }
  enum status status = check_space(&space, env, error);
  if (status != STATUS_OK) return status;

  *out = (struct space){
      .num_tensors = space.num_tensors, .discrete = space.discrete, .box = space.box};
  for (int i = 0; i < space.num_tensors; i++) {
    const struct acorn_tensor *from = &space.tensor[i];
    struct space_tensor *to = &out->tensor[i];
    to->dtype = (enum dtype)from->dtype; // the numbers are the same, see the assertions below
    to->rank = from->rank;
    snprintf(to->name, sizeof to->name, "%s", from->name);
    memcpy(to->shape, from->shape, sizeof to->shape);
  }
  memcpy(out->low, space.low, sizeof out->low);
  memcpy(out->high, space.high, sizeof out->high);
  return STATUS_OK;
}

_Static_assert((int)ACORN_UINT8 == (int)DTYPE_UINT8 && (int)ACORN_INT32 == (int)DTYPE_INT32 &&
                   (int)ACORN_FLOAT32 == (int)DTYPE_FLOAT32,
               "dtypes");
_Static_assert((int)ACORN_MAX_TENSORS == (int)SPACE_MAX_TENSORS &&
                   (int)ACORN_MAX_RANK == (int)SPACE_MAX_RANK &&
                   (int)ACORN_MAX_BOX == (int)SPACE_MAX_BOX &&
                   (int)ACORN_MAX_NUMBERS == (int)WIRE_MAX_EPISODE_NUMBERS &&
                   (int)ACORN_NAME_BYTES == (int)WIRE_NAME_BYTES,
               "sizes");
