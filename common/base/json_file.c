#include "common/base/json_file.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/files.h"
#include "common/base/log.h"

/* 15 digits give a number back as it was typed: 0.98; 17 would make it 0.97999999999999998. */
enum { INDENT = 2, DIGITS = 15 };

enum status json_file_write(const char *path, json_t *object, struct error *error) {
  FILE *file = files_begin(path);
  if (file) {
    (void)json_dumpf(object, file, JSON_INDENT(INDENT) | JSON_REAL_PRECISION(DIGITS));
    fputc('\n', file);
  }
  json_decref(object);
  return files_replace(file, path, error);
}

void json_file_write_or_warn(const char *path, json_t *object) {
  struct error error;
  if (json_file_write(path, object, &error) != STATUS_OK) log_warn("%s", error.text);
}

json_t *json_file_read(const char *path) {
  const char *why;
  FILE *file = files_read(path, &why);
  json_t *object = file ? json_loadf(file, 0, NULL) : NULL;
  if (file) fclose(file);
  if (json_is_object(object)) return object;
  json_decref(object);
  return NULL;
}

json_t *json_file_take(const char *path) {
  char broken[PATH_MAX];
  json_t *object = json_file_read(path);
  if (object || access(path, F_OK) != 0) return object;
  snprintf(broken, sizeof(broken), "%s.broken", path);
  if (rename(path, broken) == 0)
    log_warn("%s is no JSON object: it is kept as %s, and begun anew", path, broken);
  return NULL;
}

json_t *json_time_now(void) {
  char text[32];
  time_t now = time(NULL);
  struct tm utc;
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  return json_string(text);
}

json_t *json_number(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}
