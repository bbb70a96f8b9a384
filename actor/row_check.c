#include "actor/row_check.h"

#include <math.h>
#include <stdio.h>

#include "common/base/step.h"

static const char *why(float x) {
  return isfinite(x) ? ", of which only what is within +-1e+09 can be learned from" : "";
}

/* The learner refuses others, by which an actor ends; here the environment is named. */
static enum status check_observation(const struct acorn_row *row, const struct space *space,
                                     struct error *error) {
  for (int i = 0; i < space->num_tensors; i++) {
    const struct space_tensor *tensor = &space->tensor[i];
    if (tensor->dtype != DTYPE_FLOAT32) continue;
    const float *x = row->observation[i];
    size_t count = space_tensor_bytes(tensor) / sizeof *x, at = step_first_wild(x, count);
    if (at == count) continue;
    return status_fail(error, STATUS_IO, "its observation '%s' has %g at place %zu of %zu%s",
                       tensor->name, (double)x[at], at, count, why(x[at]));
  }
  return STATUS_OK;
}

/* Of a row that needs an action. */
static enum status check_mask(const struct acorn_row *row, const struct space *space,
                              struct error *error) {
  int mask = space_mask(space);
  if (mask < 0 || space_mask_allows(space, row->observation[mask])) return STATUS_OK;
  return status_fail(error, STATUS_IO,
                     "its action_mask allows no action%s, though the episode goes on: set "
                     "terminated or truncated",
                     space->choices.count ? " of one of the choices" : "");
}

static enum status check_count(int count, int most, const char *name, struct error *error) {
  if (count >= 0 && count <= most) return STATUS_OK;
  return status_fail(error, STATUS_IO, "its %s is %d, which is not in 0..%d", name, count, most);
}

static enum status check_name(const char *name, int number, struct error *error) {
  if (name && wire_number_name_fits(name)) return STATUS_OK;
  return status_fail(error, STATUS_IO,
                     "the name of its number %d is '%.80s'; it needs 1..%d letters, digits, '_', "
                     "'-', '.' or '/'",
                     number, name ? name : "", ACORN_NUMBER_NAME_BYTES - 1);
}

static enum status check_numbers(const struct acorn_row *row, struct error *error) {
  enum status status = check_count(row->num_numbers, ACORN_MAX_NUMBERS, "num_numbers", error);
  if (status == STATUS_OK)
    status = check_count(row->num_more_numbers, ACORN_MAX_MORE_NUMBERS - row->num_numbers,
                         "num_more_numbers", error);
  if (status == STATUS_OK && row->num_more_numbers && !row->more_numbers)
    return status_fail(error, STATUS_IO, "its num_more_numbers is %d, and its more_numbers NULL",
                       row->num_more_numbers);
  for (int i = 0; status == STATUS_OK && i < row->num_numbers; i++)
    status = check_name(row->number_name[i], i, error);
  for (int i = 0; status == STATUS_OK && i < row->num_more_numbers; i++)
    status = check_name(row->more_numbers[i].name, row->num_numbers + i, error);
  return status;
}

static enum status check_flag(int flag, const char *name, struct error *error) {
  if (flag == 0 || flag == 1) return STATUS_OK;
  return status_fail(error, STATUS_IO, "it set %s to %d, which is neither 0 nor 1", name, flag);
}

enum status row_check_step(const struct acorn_row *row, const struct space *space,
                           struct error *error) {
  if (step_is_wild(row->reward))
    return status_fail(error, STATUS_IO, "its reward is %g%s", (double)row->reward,
                       why(row->reward));
  enum status status = check_flag(row->terminated, "terminated", error);
  if (status == STATUS_OK) status = check_flag(row->truncated, "truncated", error);
  if (status == STATUS_OK) status = check_flag(row->goes_on, "goes_on", error);
  if (status == STATUS_OK) status = check_observation(row, space, error);
  bool ended = row->terminated || row->truncated;
  if (status == STATUS_OK && ended) status = check_numbers(row, error);
  return status == STATUS_OK && !ended ? check_mask(row, space, error) : status;
}

enum status row_check_reset(const struct acorn_row *row, const struct space *space,
                            struct error *error) {
  if (row->terminated || row->truncated || row->reward != 0) {
    return status_fail(error, STATUS_IO,
                       "it set reward, terminated or truncated, which belong to steps");
  }
  enum status status = check_observation(row, space, error);
  return status == STATUS_OK ? check_mask(row, space, error) : status;
}

enum status row_check_action(const void *action, const struct space *space, struct error *error) {
  const int32_t *chosen = action;
  for (int c = 0; space->discrete && c < space_num_choices(&space->choices); c++) {
    int among = space_among(&space->choices, c, space->discrete);
    if (chosen[c] >= 0 && chosen[c] < among) continue;
    char of[32] = "";
    if (space->choices.count) snprintf(of, sizeof of, " of choice %d", c);
    return status_fail(error, STATUS_MISMATCH, "the learner chose action %d%s, there are 0..%d",
                       chosen[c], of, among - 1);
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
