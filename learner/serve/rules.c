#include "learner/serve/rules.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* In last_flags: an environment that has been absent since the stream began. */
enum { NOT_BEGUN = 0x80 };

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

/* Index of the first number that is not finite, or -1. The bits are looked at in blocks without a
 * branch. */
static int find_not_finite(const uint8_t *bytes, size_t count) {
  uint32_t bad = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, bytes + 4 * i, 4);
    bad |= (bits & 0x7f800000u) == 0x7f800000u;
  }
  if (!bad) return -1;
  for (size_t i = 0; i < count; i++) {
    float x;
    memcpy(&x, bytes + 4 * i, 4);
    if (!isfinite(x)) return (int)i;
  }
  return -1;
}

enum status rules_check_finite(const float *reward, const uint8_t *rows,
                               const struct wire_layout *layout, const struct wire_space *space,
                               struct error *error) {
  int at = find_not_finite((const uint8_t *)reward, (size_t)layout->num_environments);
  if (at >= 0)
    return status_fail(error, STATUS_INVALID,
                       "environment %d: its reward is %g; nothing can be learned from it", at,
                       (double)reward[at]);
  for (int t = 0; t < layout->num_tensors; t++) {
    const struct wire_tensor *tensor = &layout->tensor[t];
    if (space->tensor[t].dtype != WIRE_FLOAT32) continue;
    /* Rows without gaps are one array: one look at all of them is enough nearly always. */
    size_t all = (size_t)layout->num_environments * tensor->bytes / 4;
    if (tensor->bytes == layout->row_stride && find_not_finite(rows, all) < 0) continue;
    for (int i = 0; i < layout->num_environments; i++) {
      const uint8_t *row = rows + (size_t)i * layout->row_stride + tensor->row_offset;
      at = find_not_finite(row, tensor->bytes / 4);
      if (at >= 0)
        return status_fail(error, STATUS_INVALID,
                           "environment %d: element %d of observation '%s' is not a finite number",
                           i, at, space->tensor[t].name);
    }
  }
  return STATUS_OK;
}
