/* metrics.jsonl of a run folder: whole lines whose steps never go back, whatever happens to the
 * disk or to the learner.
 *
 * A line that does not fit on a full disk is removed again and dropped, which is logged once, and
 * the next line tries again. When a run is resumed, the lines of steps that its checkpoint does not
 * know (they are made again) and a line that a crash has torn move to metrics.lost.jsonl.
 * Upstream: learner/report/report.c. Thread: main. */
#ifndef ACORN_LEARNER_REPORT_METRICS_FILE_H
#define ACORN_LEARNER_REPORT_METRICS_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/status.h"
#include "common/metrics/metrics.h"

struct metrics_file {
  int fd; /* -1: none */
  char path[1024];
  off_t end;             /* of the last whole line */
  bool failing;          /* the last line was dropped */
  int64_t step;          /* of the last line; -1: none */
  double seconds_before; /* of the run, before it was resumed */
};

/* Opens <folder>/metrics.jsonl for a run that stands at `step`, and sets aside what is past it.
 * Errors: IO; then there is no file, and the rest does nothing. */
MUST_CHECK enum status metrics_file_open(struct metrics_file *file, const char *folder,
                                         int64_t step, struct error *error);

/* Closes the metrics' interval and appends a line. `seconds`: since this learner's start. */
void metrics_file_write(struct metrics_file *file, struct metrics *metrics, int64_t step,
                        double seconds);
void metrics_file_close(struct metrics_file *file);

#endif
