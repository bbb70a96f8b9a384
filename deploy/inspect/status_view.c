#include "deploy/inspect/status_view.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/decimal.h"
#include "common/base/json_file.h"
#include "common/base/status.h"

enum { LINE_BYTES = 8192, TEXT_BYTES = 32 };

/* ---- numbers, as people read them */

/* Microseconds with the unit that suits them: "850 us", "2.31 ms", "12.0 s". */
static const char *time_text(double us, char text[TEXT_BYTES]) {
  if (!isfinite(us)) return "-";
  if (us < 1e3)
    snprintf(text, TEXT_BYTES, "%.0f us", us);
  else if (us < 1e6)
    snprintf(text, TEXT_BYTES, "%.2f ms", us / 1e3);
  else
    snprintf(text, TEXT_BYTES, "%.1f s", us / 1e6);
  return text;
}

static const char *mean_text(double mean, char text[TEXT_BYTES]) {
  if (!isfinite(mean)) return "-";
  snprintf(text, TEXT_BYTES, "%.2f", mean);
  return text;
}

/* ---- lines */

struct page {
  FILE *out;
  const struct view_size *size;
  int rows; /* written so far */
};

static void row(struct page *page, const char *format, ...) PRINTF_LIKE(2, 3);
static void row(struct page *page, const char *format, ...) {
  char line[LINE_BYTES];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  if (page->size->columns && length > page->size->columns) line[page->size->columns] = '\0';
  for (size_t end = strlen(line); end > 0 && line[end - 1] == ' '; end--) line[end - 1] = '\0';
  fprintf(page->out, "%s%s", line, page->size->end);
  page->rows++;
}

static void replay(struct page *page, const struct wire_status *s) {
  char a[TEXT_BYTES], b[TEXT_BYTES];
  if (!s->replay_windows_needed) return;
  decimal_short(a, (double)s->replay_windows);
  if (isfinite(s->replay_ratio))
    row(page, "replay      %s windows; %.4g sampled for each new one, %.4g asked", a,
        s->replay_ratio, s->replay_ratio_asked);
  else
    row(page, "replay      %s of %s windows before training starts", a,
        decimal_short(b, (double)s->replay_windows_needed));
}

static void totals(struct page *page, const struct wire_status *s) {
  char a[TEXT_BYTES], b[TEXT_BYTES], c[TEXT_BYTES], d[TEXT_BYTES];
  row(page, "%s %s, %s for %.0f s%s%s", s->environment, s->agent, s->state, s->seconds,
      s->run_folder[0] ? ": " : "", s->run_folder);
  if (s->total_steps)
    row(page, "steps       %s of %s, %s/s", decimal_short(a, (double)s->environment_steps),
        decimal_short(b, (double)s->total_steps), decimal_short(c, s->steps_per_second));
  else
    row(page, "steps       %s, %s/s", decimal_short(a, (double)s->environment_steps),
        decimal_short(b, s->steps_per_second));
  if (strcmp(s->state, "training") == 0 || s->updates)
    row(page, "trained     %s, %s/s in %s updates/s; lag %s updates; trainer waits %.0f%%",
        decimal_short(a, (double)s->trained_steps), decimal_short(b, s->trained_steps_per_second),
        decimal_short(c, s->updates_per_second), mean_text(s->policy_lag_updates, d),
        100 * s->trainer_wait);
  replay(page, s);
  row(page, "return      %s in training, %s in evaluation; %s episodes",
      mean_text(s->return_mean, a), mean_text(s->eval_return_mean, b),
      decimal_short(c, (double)s->episodes));
  row(page, "actors      %d of %d environments, %d late; %d of evaluators", s->train_environments,
      s->expected_environments, s->late_environments, s->eval_environments);
  double connected = (double)s->train_environments + s->eval_environments;
  double share = connected > 0 && isfinite(s->batch_rows) ? s->batch_rows / connected : 0;
  row(page, "batch       %s rows (%.0f%% of the environments) after %s; inference waits %.0f%%",
      mean_text(s->batch_rows, a), 100 * share, time_text(s->batch_wait_us, b), 100 * s->fifo_wait);
  if (s->no_data[0]) row(page, "no data     %s", s->no_data);
  if (s->not_learning[0]) row(page, "learning    %s", s->not_learning);
}

/* ---- players */

static void player_row(struct page *page, const struct wire_player *p, int name_columns) {
  char steps[TEXT_BYTES], rate[TEXT_BYTES], step[TEXT_BYTES], wait[TEXT_BYTES], silent[TEXT_BYTES];
  row(page, "%-*s %-8s %5d %5d %8s %8s %10s %10s %8s  %-5s  %s", name_columns, p->name, p->state,
      p->num_environments, p->late_environments, decimal_short(rate, p->steps_per_second),
      decimal_short(steps, (double)p->steps), time_text(p->step_us, step),
      time_text(p->wait_us, wait), time_text(p->silent_seconds * 1e6, silent),
      p->role == WIRE_ROLE_EVAL ? "eval" : "train", p->host);
}

static int longest_name(const struct wire_status *status) {
  size_t longest = strlen("actor");
  for (int i = 0; i < status->num_players; i++)
    if (strlen(status->players[i].name) > longest) longest = strlen(status->players[i].name);
  return (int)longest;
}

void status_view_table(FILE *out, const struct wire_status *status, const struct view_size *size) {
  struct page page = {.out = out, .size = size};
  totals(&page, status);
  if (status->num_players == 0) return;
  int columns = longest_name(status);
  row(&page, "%s", "");
  row(&page, "%-*s %-8s %5s %5s %8s %8s %10s %10s %8s  %-5s  %s", columns, "actor", "state", "envs",
      "late", "steps/s", "steps", "step", "wait", "silent", "role", "host");
  for (int i = 0; i < status->num_players; i++) {
    int left = status->num_players - i;
    if (size->rows && left > 1 && page.rows + 2 > size->rows) {
      row(&page, "... and %d more streams", left);
      return;
    }
    player_row(&page, &status->players[i], columns);
  }
}

/* ---- JSON */

static json_t *player_json(const struct wire_player *p) {
  return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:o, s:o, s:o, s:o}", "name", p->name,
                   "host", p->host, "role", p->role == WIRE_ROLE_EVAL ? "eval" : "train", "state",
                   p->state, "first_environment", (int)p->first_environment, "environments",
                   p->num_environments, "late_environments", p->late_environments, "steps",
                   (json_int_t)p->steps, "steps_per_second", json_number(p->steps_per_second),
                   "step_us", json_number(p->step_us), "wait_us", json_number(p->wait_us),
                   "silent_seconds", json_number(p->silent_seconds));
}

static json_t *whole(uint64_t x) {
  return json_integer((json_int_t)x);
}

static json_t *totals_json(const struct wire_status *s, const char *address) {
  json_t *all = json_pack("{s:s}", "address", address);
#define PUT_TEXT(member, bytes) json_object_set_new(all, #member, json_string(s->member));
  WIRE_STATUS_TEXTS(PUT_TEXT)
#undef PUT_TEXT
#define PUT(member, here, wire)                       \
  json_object_set_new(all, #member,                   \
                      _Generic((here)0, double        \
                               : json_number, default \
                               : whole)(s->member));
  WIRE_STATUS_NUMBERS(PUT)
#undef PUT
  return all;
}

int status_view_json(FILE *out, const struct wire_status *status, const char *address) {
  json_t *all = totals_json(status, address), *players = json_array();
  for (int i = 0; i < status->num_players; i++)
    json_array_append_new(players, player_json(&status->players[i]));
  json_object_set_new(all, "players", players);
  int result = json_dumpf(all, out, JSON_COMPACT | JSON_REAL_PRECISION(10));
  json_decref(all);
  if (result == 0 && fputc('\n', out) == EOF) result = -1;
  return result;
}
