/* What a user sees of a run: the live line, the reason when nothing moves, metrics.jsonl, the
 * result line. Thread: main. */
#ifndef ACORN_LEARNER_REPORT_H
#define ACORN_LEARNER_REPORT_H

#include <stdio.h>

#include "learner/run.h"

struct report {
  struct run *run;
  FILE *metrics_file; /* NULL: none */
  int64_t start_us, first_steps;
  int64_t live_us, metrics_us; /* when each was last written */
  int64_t rate_us, rate_steps, rate_trained, rate_cpu_us;
  double steps_per_second, trained_per_second;
  int64_t moved_us, moved_steps, explained_us;
  bool terminal;
};

/* Opens <run folder>/metrics.jsonl for appending unless there is no folder or metrics are off. */
MUST_CHECK enum status report_open(struct report *report, struct run *run, int64_t start_us,
                                   struct error *error);
/* Called a few times a second: writes what is due. */
void report_tick(struct report *report, int64_t now_us);
/* The last lines: figures of an evaluation, then "result env=... reason=..." on stdout. Returns the
 * exit code. */
int report_result(struct report *report, int64_t now_us);
void report_close(struct report *report);

#endif
