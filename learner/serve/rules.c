#include "learner/serve/rules.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* In last_flags: an environment that has been absent since the stream began; one whose episode this
 * message has reported. */
enum { NOT_BEGUN = 0x80, REPORTED = 0x40 };

/* "first|truncated", for sentences. */
static const char *flag_words(uint8_t flags, char text[64]) {
  static const char *const names[] = {"first", "terminated", "truncated", "absent"};
  text[0] = '\0';
  for (int bit = 0; bit < 4; bit++) {
    if (!(flags & (1 << bit))) continue;
    if (text[0]) strcat(text, "|");
    strcat(text, names[bit]);
  }
  return text[0] ? text : "no flags";
}

/* Whether a row with `now` and this reward may follow a row with `before`. */
static bool may_follow(uint8_t before, uint8_t now, float reward, bool started) {
  if (now & STEP_ABSENT) return now == STEP_ABSENT;
  if (!started) return now == STEP_FIRST;
  if (before & STEP_TRUNCATED) return now == STEP_FIRST && reward == 0;
  if (now & STEP_FIRST) return now == (STEP_FIRST | STEP_TERMINATED);
  return true;
}

enum status rules_check_flags(const uint8_t *flags, const float *reward, uint8_t *last_flags, int K,
                              bool started, struct error *error) {
  for (int i = 0; i < K; i++) {
    bool begun = started && !(last_flags[i] & NOT_BEGUN);
    if (!may_follow(last_flags[i], flags[i], reward[i], begun)) {
      char a[64], b[64];
      return status_fail(error, STATUS_INVALID,
                         "environment %d: a row with %s and reward %g may not follow %s%s; the "
                         "rules of a step are in acorn.proto",
                         i, flag_words(flags[i], a), (double)reward[i],
                         begun ? "a row with " : "the start of the stream",
                         begun ? flag_words(last_flags[i], b) : "");
    }
    /* What was before an absent row stays: it is as if the row were not there. */
    if (!(flags[i] & STEP_ABSENT))
      last_flags[i] = flags[i];
    else if (!begun)
      last_flags[i] = NOT_BEGUN;
  }
  return STATUS_OK;
}

enum status rules_check_episodes(const struct wire_episode *episodes, int num_episodes,
                                 const uint8_t *flags, uint8_t *last_flags, int K,
                                 struct error *error) {
  for (int i = 0; i < num_episodes; i++) {
    const struct wire_episode *episode = &episodes[i];
    int environment = (int)episode->environment;
    if (environment >= K || !(flags[environment] & (STEP_TERMINATED | STEP_TRUNCATED)))
      return status_fail(error, STATUS_INVALID,
                         "environment %d reports a finished episode, but its row ends none",
                         environment);
    if (!(fabs(episode->episode_return) <= RULES_MAX_RETURN))
      return status_fail(error, STATUS_INVALID, "environment %d: the return of its episode is %g",
                         environment, episode->episode_return);
    if (last_flags[environment] & REPORTED)
      return status_fail(error, STATUS_INVALID, "environment %d reports two episodes in one row",
                         environment);
    last_flags[environment] |= REPORTED;
  }
  return STATUS_OK;
}

static enum status check_rewards(const uint8_t *flags, const float *reward, int K,
                                 struct error *error) {
  if (step_first_wild(reward, (size_t)K) == (size_t)K) return STATUS_OK;
  for (int i = 0; i < K; i++)
    if (!(flags[i] & STEP_ABSENT) && step_is_wild(reward[i]))
      return status_fail(error, STATUS_INVALID,
                         "environment %d: its reward is %g; only numbers within +-%g can be "
                         "learned from",
                         i, (double)reward[i], (double)STEP_MAX_NUMBER);
  return STATUS_OK;
}

static enum status check_tensor(const uint8_t *flags, const uint8_t *rows,
                                const struct wire_layout *layout, int t, const char *name,
                                struct error *error) {
  const struct wire_tensor *tensor = &layout->tensor[t];
  size_t count = tensor->bytes / 4, all = (size_t)layout->num_environments * count;
  /* Rows without gaps are one array: one look at all of them is enough nearly always. */
  if (tensor->bytes == layout->row_stride && step_first_wild(rows, all) == all) return STATUS_OK;
  for (int i = 0; i < layout->num_environments; i++) {
    if (flags[i] & STEP_ABSENT) continue;
    const uint8_t *row = rows + (size_t)i * layout->row_stride + tensor->row_offset;
    size_t at = step_first_wild(row, count);
    if (at == count) continue;
    float x;
    memcpy(&x, row + 4 * at, sizeof(x));
    return status_fail(error, STATUS_INVALID,
                       "environment %d: element %zu of observation '%s' is %g; only numbers within "
                       "+-%g can be learned from",
                       i, at, name, (double)x, (double)STEP_MAX_NUMBER);
  }
  return STATUS_OK;
}

enum status rules_check_finite(const uint8_t *flags, const float *reward, const uint8_t *rows,
                               const struct wire_layout *layout, const struct space *space,
                               struct error *error) {
  enum status status = check_rewards(flags, reward, layout->num_environments, error);
  for (int t = 0; t < layout->num_tensors && status == STATUS_OK; t++)
    if (space->tensor[t].dtype == DTYPE_FLOAT32)
      status = check_tensor(flags, rows, layout, t, space->tensor[t].name, error);
  return status;
}

enum status rules_check_mask(const uint8_t *flags, const uint8_t *rows,
                             const struct wire_layout *layout, const struct space *space,
                             struct error *error) {
  int tensor = space_mask(space);
  if (tensor < 0) return STATUS_OK;
  for (int i = 0; i < layout->num_environments; i++) {
    const uint8_t *row = rows + (size_t)i * layout->row_stride + layout->tensor[tensor].row_offset;
    if (flags[i] & (STEP_ABSENT | STEP_TRUNCATED)) continue;
    if (!space_mask_allows(space, row))
      return status_fail(error, STATUS_INVALID,
                         "environment %d: its action_mask allows no action%s, but it needs one: an "
                         "episode that is over is terminated or truncated",
                         i, space->choices.count ? " of one of the choices" : "");
  }
  return STATUS_OK;
}
