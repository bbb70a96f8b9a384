/* Results for programs, in the run folder: result.json, how the newest start of the run ended, and
 * eval.json, the newest evaluation by each policy.
 *
 * Invariant: while a start goes on there is no result.json, so that one which is there is of a
 * start that has ended. A launcher writes it where the learner could not
 * (deploy/launch/launch_record.h).
 * Upstream: learner/main.c, report.c. Thread: main. */
#ifndef ACORN_LEARNER_REPORT_RESULT_FILE_H
#define ACORN_LEARNER_REPORT_RESULT_FILE_H

#include "learner/run/run.h"

/* The figures of the result line. */
struct run_result {
  int64_t steps;
  double seconds, steps_per_second;
  struct progress_returns returns;
  bool over_eval;
  enum stop_reason reason;
  const char *not_learning; /* see diagnosis.h; "": nothing tells so */
};

/* The start begins. The result of a run that is finished already stays, here and below. */
void result_file_remove(const struct run *run);

/* `why`: of a run that failed; else "". A file that cannot be written is logged. */
void result_file_write(const struct run *run, const struct run_result *result, int exit_code,
                       const char *why);

/* Of a run that is finished already: the figures of the file, where there is one. A mean over no
 * episodes is NaN. */
void result_file_read(const struct run *run, struct run_result *result);

/* A start that failed before its first step, in a folder that is there: result.json as far as it is
 * known. A folder that holds a run stays as it is. */
void result_file_write_refusal(const struct run *run, int exit_code, const char *why);

/* eval.json: replaces the part of the policy that was played. half_width: of the mean's 95 %
 * interval; std: of the sample. */
void result_file_write_evaluation(const struct run *run, const struct progress_returns *returns,
                                  double half_width);

#endif
