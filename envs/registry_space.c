#include <limits.h>
#include <math.h>
#include <string.h>

#include "envs/registry.h"

/* One choice is a plain discrete action. Beside `discrete` or `box` they stay to be refused. */
static void copy_choices(struct space *out, const struct acorn_space *space) {
  int64_t sum = out->discrete;
  if (space->choices == 0) return;
  bool is_plain = space->choices == 1 && space->discrete == 0 && space->among[0] > 0;
  out->choices.count = is_plain ? 0 : space->choices;
  for (int c = 0; c < space->choices && c < SPACE_MAX_CHOICES; c++) {
    out->choices.among[c] = space->among[c];
    sum += space->among[c];
  }
  out->discrete = sum > 0 && sum < INT_MAX ? (int)sum : 0;
}

/* As the environment says it; what is beyond the limits stays to be refused. */
static void copy_space(struct space *out, const struct acorn_space *space) {
  *out = (struct space){
      .num_tensors = space->num_tensors, .discrete = space->discrete, .box = space->box};
  for (int i = 0; i < space->num_tensors && i < SPACE_MAX_TENSORS; i++) {
    const struct acorn_tensor *from = &space->tensor[i];
    struct space_tensor *to = &out->tensor[i];
    to->dtype = (enum dtype)from->dtype; // the numbers are the same, see the assertions below
    to->rank = from->rank;
    space_set_name(to, from->name ? from->name : "");
    memcpy(to->shape, from->shape, sizeof to->shape);
  }
  copy_choices(out, space);
  memcpy(out->low, space->low, sizeof out->low);
  memcpy(out->high, space->high, sizeof out->high);
}

// The wire carries infinite bounds; here they are a mistake.
static enum status check_bounds(const struct space *space, struct error *error) {
  for (int i = 0; i < space->box; i++)
    if (!isfinite(space->low[i]) || !isfinite(space->high[i]))
      return status_fail(error, STATUS_INVALID,
                         "action %d of the box is in %g..%g, which is no range", i,
                         (double)space->low[i], (double)space->high[i]);
  return STATUS_OK;
}

enum status registry_space(struct space *out, const struct acorn_env *env,
                           const struct acorn_config *config, struct error *error) {
  struct acorn_space space = {.struct_bytes = sizeof space};
  char text[512] = "";
  if (env->space(&space, config, text, sizeof text)) {
    return status_fail(error, STATUS_INVALID, "environment %s: %s", env->name,
                       *text ? text : "its function space failed and gave no reason");
  }
  copy_space(out, &space);
  struct error fault;
  enum status status = space_check(out, &fault);
  if (status == STATUS_OK) status = check_bounds(out, &fault);
  if (status == STATUS_OK) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "environment %s: %s", env->name, fault.text);
}

_Static_assert((int)ACORN_UINT8 == (int)DTYPE_UINT8 && (int)ACORN_INT32 == (int)DTYPE_INT32 &&
                   (int)ACORN_FLOAT32 == (int)DTYPE_FLOAT32,
               "dtypes");
_Static_assert((int)ACORN_MAX_TENSORS == (int)SPACE_MAX_TENSORS &&
                   (int)ACORN_MAX_RANK == (int)SPACE_MAX_RANK &&
                   (int)ACORN_MAX_BOX == (int)SPACE_MAX_BOX &&
                   (int)ACORN_MAX_CHOICES == (int)SPACE_MAX_CHOICES &&
                   (int)ACORN_MAX_MORE_NUMBERS == (int)WIRE_MAX_EPISODE_NUMBERS &&
                   (int)ACORN_NUMBER_NAME_BYTES == (int)WIRE_NUMBER_NAME_BYTES &&
                   (int)ACORN_NAME_BYTES == (int)WIRE_NAME_BYTES,
               "sizes");
