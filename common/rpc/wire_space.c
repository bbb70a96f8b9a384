/* What an observation and an action are made of: sizes, layouts, and the comparison of two
 * sides' spaces. */
#include <stdio.h>
#include <string.h>

#include "common/base/check.h"
#include "common/rpc/wire.h"

static size_t align16(size_t bytes) {
  return (bytes + 15) & ~(size_t)15;
}

void wire_layout_finish(struct wire_layout *layout) {
  CHECK(layout->num_tensors >= 1 && layout->num_tensors <= WIRE_MAX_TENSORS, "%d tensors",
        layout->num_tensors);
  size_t wire = 0, row = 0;
  for (int i = 0; i < layout->num_tensors; i++) {
    struct wire_tensor *tensor = &layout->tensor[i];
    tensor->wire_offset = wire;
    tensor->row_offset = row;
    wire += tensor->bytes;
    row = align16(row + tensor->bytes);
  }
  layout->wire_bytes = wire;
  layout->row_stride = row;
}

size_t wire_tensor_spec_bytes(const struct wire_tensor_spec *spec) {
  size_t bytes = spec->dtype == WIRE_UINT8 ? 1 : 4;
  for (int i = 0; i < spec->rank; i++) bytes *= (size_t)spec->shape[i];
  return bytes;
}

int wire_action_bytes(const struct wire_space *space) {
  return space->discrete ? (int)sizeof(int32_t) : space->box * (int)sizeof(float);
}

void wire_layout_of_space(struct wire_layout *layout, const struct wire_space *space,
                          int num_environments) {
  *layout =
      (struct wire_layout){.num_environments = num_environments, .num_tensors = space->num_tensors};
  for (int i = 0; i < space->num_tensors; i++)
    layout->tensor[i].bytes = wire_tensor_spec_bytes(&space->tensor[i]);
  wire_layout_finish(layout);
}

/* ---- comparison */

/* "float32[4]", "uint8[84,84]"; out has room for 80 bytes. */
static const char *describe(char out[80], const struct wire_tensor_spec *spec) {
  static const char *const names[] = {"unspecified", "uint8", "int32", "float32"};
  int n = snprintf(out, 80, "%s[", names[spec->dtype]);
  for (int i = 0; i < spec->rank; i++)
    n += snprintf(out + n, 80 - (size_t)n, i ? ",%d" : "%d", spec->shape[i]);
  snprintf(out + n, 80 - (size_t)n, "]");
  return out;
}

static bool same_tensor(const struct wire_tensor_spec *a, const struct wire_tensor_spec *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

static enum status compare_tensors(const struct wire_space *a, const char *ours,
                                   const struct wire_space *b, const char *theirs,
                                   struct error *error) {
  if (a->num_tensors != b->num_tensors)
    return status_fail(error, STATUS_MISMATCH, "an observation has %d tensors %s, %d %s",
                       a->num_tensors, ours, b->num_tensors, theirs);
  for (int i = 0; i < a->num_tensors; i++) {
    const struct wire_tensor_spec *x = &a->tensor[i], *y = &b->tensor[i];
    char left[80], right[80];
    if (strcmp(x->name, y->name) != 0)
      return status_fail(error, STATUS_MISMATCH, "observation %d is named '%s' %s, '%s' %s", i,
                         x->name, ours, y->name, theirs);
    if (!same_tensor(x, y))
      return status_fail(error, STATUS_MISMATCH, "observation '%s' is %s %s, %s %s", x->name,
                         describe(left, x), ours, describe(right, y), theirs);
  }
  return STATUS_OK;
}

/* "discrete(4)" or "box(6)". */
static const char *describe_action(char out[32], const struct wire_space *space) {
  snprintf(out, 32, space->discrete ? "discrete(%d)" : "box(%d)",
           space->discrete ? space->discrete : space->box);
  return out;
}

enum status wire_space_compare(const struct wire_space *a, const char *ours,
                               const struct wire_space *b, const char *theirs,
                               struct error *error) {
  enum status status = compare_tensors(a, ours, b, theirs, error);
  if (status != STATUS_OK) return status;
  char left[32], right[32];
  if (a->discrete != b->discrete || a->box != b->box)
    return status_fail(error, STATUS_MISMATCH, "the action is %s %s, %s %s",
                       describe_action(left, a), ours, describe_action(right, b), theirs);
  for (int i = 0; i < a->box; i++)
    if (a->low[i] != b->low[i] || a->high[i] != b->high[i])
      return status_fail(error, STATUS_MISMATCH, "action %d is in %g..%g %s, %g..%g %s", i,
                         (double)a->low[i], (double)a->high[i], ours, (double)b->low[i],
                         (double)b->high[i], theirs);
  return STATUS_OK;
}
