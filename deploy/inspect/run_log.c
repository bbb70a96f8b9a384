#include "deploy/inspect/run_log.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/files.h"

/* What the reader has seen so far. */
struct reader {
  struct run_log *log;
  const struct run_axes *axes;
  int lines;       /* that were metrics */
  bool has_y;      /* one of them names y */
  char names[256]; /* some of the others */
};

static void add_point(struct run_log *log, double x, double y) {
  if (log->count == log->room) {
    log->room = log->room ? 2 * log->room : 256;
    log->point = realloc(log->point, (size_t)log->room * sizeof(*log->point));
    CHECK(log->point, "out of memory for %d points", log->room);
  }
  log->point[log->count++] = (struct run_point){x, y};
}

/* The newest line stands for its x and for what lies beyond. */
static void drop_from(struct run_log *log, double x) {
  while (log->count > 0 && log->point[log->count - 1].x >= x) log->count--;
}

/* "loss/total, train/value, ...": what could be plotted. */
static void note_names(struct reader *reader, json_t *line) {
  const char *name;
  json_t *value;
  size_t length = 0;
  json_object_foreach(line, name, value) {
    bool fits = length + strlen(name) + 8 < sizeof(reader->names);
    length += (size_t)snprintf(reader->names + length, sizeof(reader->names) - length, "%s%s",
                               length ? ", " : "", fits ? name : "...");
    if (!fits) return;
  }
}

static void take_line(struct reader *reader, json_t *line) {
  const json_t *step = json_object_get(line, "step"), *seconds = json_object_get(line, "seconds");
  if (!json_is_number(step) || !json_is_number(seconds)) return;
  if (reader->lines++ == 0) note_names(reader, line);
  const json_t *y = json_object_get(line, reader->axes->y);
  reader->has_y |= y != NULL;
  double x = json_number_value(reader->axes->seconds ? seconds : step);
  drop_from(reader->log, x);
  if (json_is_number(y)) add_point(reader->log, x, json_number_value(y));
}

static enum status check_lines(const struct reader *reader, const char *path, struct error *error) {
  if (reader->lines == 0)
    return status_fail(error, STATUS_INVALID, "%.300s holds no line of metrics yet", path);
  if (!reader->has_y)
    return status_fail(error, STATUS_INVALID, "--y=%.100s: %.300s has no such metric; it has %s",
                       reader->axes->y, path, reader->names);
  return STATUS_OK;
}

enum status run_log_read(struct run_log *log, const char *folder, const struct run_axes *axes,
                         struct error *error) {
  *log = (struct run_log){0};
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
  const char *why;
  FILE *file = files_read(path, &why);
  if (!file)
    return status_fail(error, errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_IO,
                       "%.300s cannot be read: %s; name a run folder", path, why);
  struct reader reader = {.log = log, .axes = axes};
  char *text = NULL;
  size_t room = 0;
  for (ssize_t length; (length = getline(&text, &room, file)) >= 0;) {
    json_t *line = json_loadb(text, (size_t)length, 0, NULL);
    if (json_is_object(line)) take_line(&reader, line);
    json_decref(line);
  }
  free(text);
  fclose(file);
  return check_lines(&reader, path, error);
}

void run_log_deinit(struct run_log *log) {
  free(log->point);
  *log = (struct run_log){0};
}
