#include "actor/row_check.h"

#include <math.h>
#include <string.h>

/* The place of the first number that is not finite; count if there is none. The first loop looks at
 * the bits, without a branch. */
static size_t first_not_finite(const float *x, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    bits &= 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  if (largest < 0x7f800000u) return count;
  size_t i = 0;
  while (isfinite(x[i])) i++;
  return i;
}

static enum status check_observation(const struct acorn_row *row, const struct space *space,
                                     struct error *error) {
  for (int i = 0; i < space->num_tensors; i++) {
    const struct space_tensor *tensor = &space->tensor[i];
    if (tensor->dtype != DTYPE_FLOAT32) continue;
    const float *x = row->observation[i];
    size_t count = space_tensor_bytes(tensor) / sizeof *x, at = first_not_finite(x, count);
    if (at == count) continue;
    return status_fail(error, STATUS_IO, "its observation '%s' has %g at place %zu of %zu",
                       tensor->name, (double)x[at], at, count);
  }
  return STATUS_OK;
}

static enum status check_numbers(const struct acorn_row *row, struct error *error) {
  if (row->num_numbers < 0 || row->num_numbers > ACORN_MAX_NUMBERS) {
    return status_fail(error, STATUS_IO, "its num_numbers is %d, which is not in 0..%d",
                       row->num_numbers, ACORN_MAX_NUMBERS);
  }
  for (int i = 0; i < row->num_numbers; i++) {
    const char *name = row->number_name[i];
    size_t length = name ? strlen(name) : 0;
    bool visible = length > 0 && length < ACORN_NAME_BYTES;
    for (size_t c = 0; visible && c < length; c++) visible = name[c] > ' ' && name[c] <= '~';
    if (!visible) {
      return status_fail(error, STATUS_IO,
                         "the name of its number %d needs 1..%d characters of visible ASCII", i,
                         ACORN_NAME_BYTES - 1);
    }
    if (!isfinite(row->number[i]))
      return status_fail(error, STATUS_IO, "its number '%s' is %g", name, row->number[i]);
  }
  return STATUS_OK;
}

static enum status check_flag(int flag, const char *name, struct error *error) {
  if (flag == 0 || flag == 1) return STATUS_OK;
  return status_fail(error, STATUS_IO, "it set %s to %d, which is neither 0 nor 1", name, flag);
}

enum status row_check_step(const struct acorn_row *row, const struct space *space,
                           struct error *error) {
  if (!isfinite(row->reward))
    return status_fail(error, STATUS_IO, "its reward is %g", (double)row->reward);
  enum status status = check_flag(row->terminated, "terminated", error);
  if (status == STATUS_OK) status = check_flag(row->truncated, "truncated", error);
  if (status == STATUS_OK) status = check_flag(row->goes_on, "goes_on", error);
  if (status == STATUS_OK) status = check_observation(row, space, error);
  bool ended = row->terminated || row->truncated;
  if (status == STATUS_OK && ended) status = check_numbers(row, error);
  return status;
}

enum status row_check_reset(const struct acorn_row *row, const struct space *space,
                            struct error *error) {
  if (row->terminated || row->truncated || row->reward != 0) {
    return status_fail(error, STATUS_IO,
                       "it set reward, terminated or truncated, which belong to steps");
  }
  return check_observation(row, space, error);
}

enum status row_check_action(const void *action, const struct space *space, struct error *error) {
  if (space->discrete) {
    int32_t chosen = *(const int32_t *)action;
    if (chosen >= 0 && chosen < space->discrete) return STATUS_OK;
    return status_fail(error, STATUS_MISMATCH, "the learner chose action %d, there are 0..%d",
                       chosen, space->discrete - 1);
  }
  const float *x = action;
  for (int i = 0; i < space->box; i++) {
    if (x[i] >= space->low[i] && x[i] <= space->high[i]) continue;
    return status_fail(
        error, STATUS_MISMATCH,
        "the learner chose %g for dimension %d of the action, which is not in %g..%g", (double)x[i],
        i, (double)space->low[i], (double)space->high[i]);
  }
  return STATUS_OK;
}
