/* A space as JSON, from which a program that has no environment makes it again: {"observation":
 * [{"name", "dtype", "shape"}, ...], and one of "discrete": n, "choices": [n, ...], "low": [x, ...]
 * with "high"}. A bound that is not finite is null.
 * Upstream: learner/run/folder.c, deploy/inspect/export/export.c, deploy/python/{policy,vector}.c.
 * Downstream: common/base/space.h. Thread: any. */
#ifndef ACORN_COMMON_BASE_SPACE_JSON_H
#define ACORN_COMMON_BASE_SPACE_JSON_H

#include "common/base/space.h"

/* Owner: the caller, with free(). */
char *space_json_text(const struct space *space);

/* Errors: INVALID: it is no such text, or no space is so. */
MUST_CHECK enum status space_json_parse(struct space *out, const char *text, struct error *error);

#endif
