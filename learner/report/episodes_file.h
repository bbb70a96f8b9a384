/* episodes.csv of a run folder: a row for each finished episode, for tables (pandas, R, a sheet).
 *
 * Columns: seconds, step, actor, environment, role, return, length, one_in, then a column env/NAME
 * for each number that environments report. A name that is new makes the header longer; rows of
 * before are then shorter than it, which readers of tables fill up with missing values.
 * On a resume the rows of steps that the checkpoint does not know are cut off: they are made again.
 * Rows that do not fit on a full disk are dropped, this is said once, and the next ones try again.
 * Upstream: report.c. Thread: main. */
#ifndef ACORN_LEARNER_REPORT_EPISODES_FILE_H
#define ACORN_LEARNER_REPORT_EPISODES_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/status.h"
#include "learner/episodes/episode_log.h"
#include "learner/episodes/progress.h"

/* Those of before a resume, and those since: they may be others. */
enum { EPISODES_FILE_NUMBERS = 2 * NUMBERS_MAX };

struct episodes_file {
  int fd; /* -1: none */
  char path[PATH_MAX];
  off_t end;    /* of the last whole row */
  bool failing; /* the last rows were dropped */
  int num_numbers;
  char name[EPISODES_FILE_NUMBERS][WIRE_NUMBER_NAME_BYTES]; /* of the header */
  int64_t start_us;                                         /* of this learner, as clock_now_us */
  double seconds_before;                                    /* of the run, before it was resumed */
  int64_t written_us;                                       /* when rows were last written */
};

/* Opens <folder>/episodes.csv for a run that stands at `step`, and cuts off what is past it.
 * Errors: IO; then there is no file, and the rest does nothing. */
MUST_CHECK enum status episodes_file_open(struct episodes_file *file, const char *folder,
                                          int64_t step, int64_t start_us, double seconds_before,
                                          struct error *error);

/* Whether a second has passed since rows were written. */
bool episodes_file_is_due(const struct episodes_file *file, int64_t now_us);
/* Appends what the log has, by its steps. `progress`: fills the log, and names its numbers. */
void episodes_file_write(struct episodes_file *file, struct episode_log *log,
                         struct progress *progress, int64_t now_us);
void episodes_file_close(struct episodes_file *file);

#endif
