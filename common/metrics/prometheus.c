#include "common/metrics/prometheus.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- names and numbers */

static bool ends_in(const char *name, const char *end) {
  size_t length = strlen(name), end_length = strlen(end);
  return length > end_length && strcmp(name + length - end_length, end) == 0;
}

static bool is_of_environment(const char *name) {
  return strncmp(name, "env/", 4) == 0 || strncmp(name, "eval/env/", 9) == 0;
}

static bool is_time(const char *name) {
  return !is_of_environment(name) && ends_in(name, "_us");
}

// "batch/wait_us" -> "acorn_batch_wait_seconds". Only what counts may end in _total: "loss/total"
// is acorn_loss. Names of environments have characters that Prometheus refuses with the whole page,
// and say nothing of units.
static void translate(char text[METRIC_NAME_BYTES], const struct metric_view *view) {
  bool time = is_time(view->name), own = !is_of_environment(view->name);
  bool sum = own && view->kind != METRIC_COUNTER && ends_in(view->name, "/total");
  int length = (int)(strlen(view->name) - (time ? strlen("_us") : sum ? strlen("/total") : 0));
  snprintf(text, METRIC_NAME_BYTES, "acorn_%.*s%s%s", length, view->name, time ? "_seconds" : "",
           view->kind == METRIC_COUNTER ? "_total" : "");
  for (char *p = text; *p; p++)
    if (!isalnum((unsigned char)*p)) *p = '_';
}

static void write_number(FILE *out, double value) {
  if (isnan(value))
    fputs("NaN\n", out);
  else if (isinf(value))
    fputs(value > 0 ? "+Inf\n" : "-Inf\n", out);
  else
    fprintf(out, "%.9g\n", value);
}

// In a label's value the quote is escaped too.
static void write_escaped(FILE *out, const char *text, bool quoted) {
  for (; *text; text++) {
    if (*text == '\n') {
      fputs("\\n", out);
      continue;
    }
    if (*text == '\\' || (quoted && *text == '"')) fputc('\\', out);
    fputc(*text, out);
  }
}

static void write_head(FILE *out, const char *name, const char *help, const char *type) {
  fprintf(out, "# HELP %s ", name);
  write_escaped(out, help, false);
  fprintf(out, "\n# TYPE %s %s\n", name, type);
}

/* ---- metrics */

static void write_summary(FILE *out, const char *name, const struct metric_view *view) {
  double unit = is_time(view->name) ? 1e-6 : 1;
  const struct {
    const char *quantile;
    double value;
  } rows[] = {{"0.5", view->p50}, {"0.99", view->p99}, {"1", view->max}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    fprintf(out, "%s{quantile=\"%s\"} ", name, rows[i].quantile);
    write_number(out, rows[i].value * unit);
  }
  fprintf(out, "%s_sum ", name);
  write_number(out, view->value * unit);
  fprintf(out, "%s_count %" PRId64 "\n", name, view->total);
}

static void write_metric(void *context, const struct metric_view *view) {
  static const char *const types[] = {
      [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "summary"};
  FILE *out = context;
  char name[METRIC_NAME_BYTES];
  translate(name, view);
  write_head(out, name, view->help, types[view->kind]);
  switch (view->kind) {
    case METRIC_COUNTER:
      fprintf(out, "%s %" PRId64 "\n", name, view->total);
      return;
    case METRIC_GAUGE:
      fprintf(out, "%s ", name);
      write_number(out, view->value * (is_time(view->name) ? 1e-6 : 1));
      return;
    case METRIC_HISTOGRAM:
      write_summary(out, name, view);
      return;
  }
}

void prometheus_write(const struct metrics *metrics, FILE *out) {
  metrics_each(metrics, write_metric, out);
}

void prometheus_write_info(FILE *out, const char *name, const char *help,
                           const struct prometheus_label *labels, int num_labels) {
  write_head(out, name, help, "gauge");
  fputs(name, out);
  for (int i = 0; i < num_labels; i++) {
    fprintf(out, "%c%s=\"", i == 0 ? '{' : ',', labels[i].name);
    write_escaped(out, labels[i].value, true);
    fputc('"', out);
  }
  fputs("} 1\n", out);
}
