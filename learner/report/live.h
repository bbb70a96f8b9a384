/* The live line of a run: figures in the order of their weight, as many as a terminal has room for.
 * Thread: main. Upstream: report.c. Downstream: common/base/log.h. */
#ifndef ACORN_LEARNER_REPORT_LIVE_H
#define ACORN_LEARNER_REPORT_LIVE_H

#include <stddef.h>
#include <stdint.h>

#include "common/wire/wire.h"
#include "learner/train/update.h"

/* Writes the line. stats: of the newest update, of no steps before the first; NULL where nothing is
 * learned. columns: fields that do not fit are left out, whole; 0: all fit. */
void live_format(char *line, size_t bytes, const struct wire_status *status,
                 const struct update_stats *stats, int columns);

/* How long a line stands before the next one: short on a terminal, where it is redrawn; elsewhere
 * every line stays, so they come at first every 10 s, later every minute. Units: microseconds. */
int64_t live_interval_us(int columns, double run_seconds);

#endif
