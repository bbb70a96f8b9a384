#include "learner/report/live.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/decimal.h"
#include "common/base/status.h"

enum { SECOND_US = 1000 * 1000, FIELD_BYTES = 320, EAGER_SECONDS = 300 };
enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };

struct line {
  char *text;
  size_t bytes, length;
  size_t columns; /* 0: any */
  bool full;      /* a field did not fit: those of less weight are left out as well */
};

static void add(struct line *line, const char *format, ...) PRINTF_LIKE(2, 3);
static void add(struct line *line, const char *format, ...) {
  char field[FIELD_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(field, sizeof(field), format, args);
  va_end(args);
  const char *gap = line->length ? "  " : "";
  size_t length = line->length + strlen(gap) + strlen(field);
  if (line->full || length >= line->bytes || (line->columns && length > line->columns)) {
    line->full = true;
    return;
  }
  snprintf(line->text + line->length, line->bytes - line->length, "%s%s", gap, field);
  line->length = length;
}

static void add_return(struct line *line, const char *word, double mean) {
  if (isfinite(mean))
    add(line, "%s %.2f", word, mean);
  else
    add(line, "%s -", word);
}

/* Of a replay that training has started from. */
static bool has_ratio(const struct wire_status *status) {
  return status->replay_windows_needed && isfinite(status->replay_ratio);
}

/* Until training starts; decimal_short has too few digits for a count that is waited for. */
static void add_replay(struct line *line, const struct wire_status *status) {
  if (!status->replay_windows_needed || has_ratio(status)) return;
  add(line, "replay %llu of %llu", (unsigned long long)status->replay_windows,
      (unsigned long long)status->replay_windows_needed);
}

static void add_steps(struct line *line, const struct wire_status *status, bool evaluates) {
  char steps[DECIMAL_BYTES], total[DECIMAL_BYTES];
  decimal_short(steps, (double)status->environment_steps);
  if (evaluates || !status->total_steps)
    add(line, "%s steps", steps);
  else
    add(line, "%s of %s steps", steps, decimal_short(total, (double)status->total_steps));
}

/* At the rate of the last seconds. */
static void add_time_left(struct line *line, const struct wire_status *status) {
  if (status->total_steps <= status->environment_steps || !(status->steps_per_second > 0)) return;
  double seconds =
      (double)(status->total_steps - status->environment_steps) / status->steps_per_second;
  if (seconds < 2 * MINUTE)
    add(line, "%.0f s left", seconds);
  else if (seconds < 2 * HOUR)
    add(line, "%.0f min left", seconds / MINUTE);
  else if (seconds < 2 * DAY)
    add(line, "%.1f h left", seconds / HOUR);
  else
    add(line, "%.0f days left", seconds / DAY);
}

void live_format(char *text, size_t bytes, const struct wire_status *status,
                 const struct update_stats *stats, int columns) {
  struct line line = {.text = text, .bytes = bytes, .columns = (size_t)columns};
  bool evaluates = strcmp(status->state, "evaluating") == 0;
  if (stats && stats->steps == 0) stats = NULL;
  char number[DECIMAL_BYTES];
  text[0] = '\0';
  add_steps(&line, status, evaluates);
  add(&line, "%s/s", decimal_short(number, status->steps_per_second));
  if (!evaluates) add_time_left(&line, status);
  add_return(&line, "return", evaluates ? status->eval_return_mean : status->return_mean);
  add(&line, "%d of %d environments",
      evaluates ? status->eval_environments : status->train_environments,
      status->expected_environments);
  add_replay(&line, status);
  if (status->late_environments) add(&line, "%d late", status->late_environments);
  if (stats) add(&line, "loss %.4f", stats->losses.total);
  if (has_ratio(status))
    add(&line, "replay ratio %.2f", status->replay_ratio);
  else if (stats)
    add(&line, "lag %.1f", stats->lag_updates);
  if (isfinite(status->batch_rows)) add(&line, "batch %.0f rows", status->batch_rows);
  if (stats && isfinite(stats->losses.entropy)) add(&line, "entropy %.3f", stats->losses.entropy);
  if (!evaluates && isfinite(status->eval_return_mean))
    add_return(&line, "eval return", status->eval_return_mean);
  add(&line, "%llu episodes", (unsigned long long)status->episodes);
  add(&line, "%s %s", status->environment, status->agent);
}

int64_t live_interval_us(int columns, double run_seconds) {
  if (columns) return SECOND_US / 2;
  return run_seconds < EAGER_SECONDS ? 10 * SECOND_US : 60 * SECOND_US;
}
