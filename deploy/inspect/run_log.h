/* The curve of one run: two columns of its metrics.jsonl.
 *
 * The file may be growing, and its last line be half there. Where two lines have the same x the
 * later one stands, and where x goes back what was said before about the same ground is dropped.
 * Invariant: x grows strictly. Upstream: deploy/inspect/curves.c. Thread: one. */
#ifndef ACORN_DEPLOY_INSPECT_RUN_LOG_H
#define ACORN_DEPLOY_INSPECT_RUN_LOG_H

#include <stdbool.h>

#include "common/base/status.h"

struct run_point {
  double x, y;
};

struct run_log {
  struct run_point *point; /* (count) */
  int count, room;
};

struct run_axes {
  bool seconds;  /* x: seconds; else environment steps */
  const char *y; /* the name of a metric */
};

/* Reads <folder>/metrics.jsonl. Lines without a number for y, and a last line that was cut, are
 * left out; so `count` may be 0. Owner: the caller, with run_log_deinit, also after an error.
 * Errors: NOT_FOUND: no such file. INVALID: no line of it is one of metrics, or none names y (says
 * which names there are). IO. */
MUST_CHECK enum status run_log_read(struct run_log *log, const char *folder,
                                    const struct run_axes *axes, struct error *error);
void run_log_deinit(struct run_log *log);

#endif
