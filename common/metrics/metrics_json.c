// metrics.jsonl: one object a line, flat, so that a table reader needs nothing but the names.
#include <errno.h>
#include <jansson.h>

#include "common/base/check.h"
#include "common/base/json_file.h"
#include "common/metrics/metrics.h"

static void add(json_t *line, const char *name, json_t *value) {
  CHECK(json_object_set_new(line, name, value) == 0,
        "metric %s: out of memory, or its name is not UTF-8", name);
}

static void add_part(json_t *line, const char *name, const char *part, double value) {
  char full_name[METRIC_NAME_BYTES];
  snprintf(full_name, sizeof full_name, "%s%s", name, part);
  add(line, full_name, json_number(value));
}

static void add_metric(void *context, const struct metric_view *view) {
  json_t *line = context;
  switch (view->kind) {
    case METRIC_COUNTER:
      add(line, view->name, json_integer(view->total));
      return;
    case METRIC_GAUGE:
      add(line, view->name, json_number(view->value));
      return;
    case METRIC_HISTOGRAM:
#define ADD_PART(member, part) add_part(line, view->name, part, view->member);
      METRIC_HISTOGRAM_SCALARS(ADD_PART)
#undef ADD_PART
      return;
  }
}

int metrics_write_json(struct metrics *metrics, int64_t step, double seconds, FILE *file) {
  metrics_close_interval(metrics);
  json_t *line = json_object();
  CHECK(line, "out of memory for a line of metrics");
  add(line, "step", json_integer(step));
  add(line, "seconds", json_number(seconds));
  metrics_each(metrics, add_metric, line);

  errno = 0;
  int failed = json_dumpf(line, file, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0;
  failed |= fputc('\n', file) == EOF;
  failed |= fflush(file) != 0;
  int reason = errno;
  json_decref(line);
  errno = failed && reason == 0 ? EIO : reason;
  return failed ? -1 : 0;
}
