/* What a user sees of a run: the live line, the reason when nothing moves, metrics.jsonl,
 * episodes.csv and TensorBoard's events, the result line. Thread: main. */
#ifndef ACORN_LEARNER_REPORT_REPORT_H
#define ACORN_LEARNER_REPORT_REPORT_H

#include "learner/report/episodes_file.h"
#include "learner/report/events.h"
#include "learner/report/metrics_file.h"
#include "learner/report/result_file.h"
#include "learner/run/run.h"
#include "learner/report/video.h"
#include "learner/report/vitals.h"

struct report {
  struct run *run;
  struct metrics_file metrics_file;
  struct episodes_file episodes_file;
  struct events events;
  struct video video;
  int64_t start_us, first_steps;
  int64_t live_us, metrics_us; /* when each was last written */
  int64_t metrics_mark;        /* --metrics_steps: the multiple of the last line */
  struct vitals vitals;
  struct run_result result; /* set by report_result */
};

/* Opens <run folder>/metrics.jsonl for appending and begins an event file unless there is no folder
 * or metrics are off. */
MUST_CHECK enum status report_open(struct report *report, struct run *run, int64_t start_us,
                                   struct error *error);
/* Called a few times a second: writes what is due. */
void report_tick(struct report *report, int64_t now_us);
/* Copies the figures of the run into its metrics. */
void report_measure(struct report *report);
/* What belongs to a checkpoint that has been written: images of what the network sees, and a video
 * (not of a run that is over). Before the
 * trainer may fill its buffer again, see events_write_images. */
void report_checkpoint(struct report *report, int64_t now_us);
/* The last lines: figures of an evaluation, then "result env=... reason=..." on stdout. Returns the
 * exit code. */
int report_result(struct report *report, int64_t now_us);
void report_close(struct report *report);

#endif
