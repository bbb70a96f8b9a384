/* Formats a learner's Status reply: a table for people, JSON for scripts.
 * Upstream: deploy/inspect/status.c. Thread: one. */
#ifndef ACORN_DEPLOY_INSPECT_STATUS_VIEW_H
#define ACORN_DEPLOY_INSPECT_STATUS_VIEW_H

#include <stdio.h>

#include "common/wire/wire.h"

/* Lines of at most `columns` characters, at most `rows` of them, each ended by `end` ("\n"; a
 * terminal that is redrawn wants the rest of the line cleared). 0: any number. Players that there
 * is no row for are counted. */
struct view_size {
  int columns, rows;
  const char *end;
};
void status_view_table(FILE *out, const struct wire_status *status, const struct view_size *size);

/* One line; NaN becomes null. Returns 0, or -1 where it cannot be written. */
int status_view_json(FILE *out, const struct wire_status *status, const char *address);

#endif
