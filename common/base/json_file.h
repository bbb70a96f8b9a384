/* JSON files that are replaced whole: a reader never sees half of one.
 * Upstream: learner/report/record.c, learner/report/result_file.c, deploy/launch/launch_record.c.
 * Thread: any, one at a time for a file. */
#ifndef ACORN_COMMON_BASE_JSON_FILE_H
#define ACORN_COMMON_BASE_JSON_FILE_H

#include <jansson.h>

#include "common/base/status.h"

/* Takes the reference to `object`. Errors: IO, with the path and the reason; the file is as before
 * then. */
MUST_CHECK enum status json_file_write(const char *path, json_t *object, struct error *error);

/* The same, where nobody can act on a failure: it is logged. */
void json_file_write_or_warn(const char *path, json_t *object);

/* The object in the file; NULL where there is none. Owner: the caller, with json_decref. */
json_t *json_file_read(const char *path);

/* The same of a file that is to be written again: one that holds no object is renamed to
 * PATH.broken, and logged. */
json_t *json_file_take(const char *path);

/* Now, as "2026-11-23T06:01:21Z". Owner: as of json_string. */
json_t *json_time_now(void);

/* A number; null where it is not finite. */
json_t *json_number(double value);

#endif
