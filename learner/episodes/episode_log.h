/* The episodes that ended since the log was last read, for episodes.csv.
 *
 * Bounded: of each role it keeps EPISODE_LOG_ROWS. Where more end between two reads, every second,
 * fourth, ... one is kept, evenly over that time, and its row says of how many it is one: an
 * environment whose episodes last microseconds fills neither the memory nor the disk.
 * Upstream: progress.c (any thread). Downstream: report/episodes_file.c (main). Nothing allocates
 * after create. */
#ifndef ACORN_LEARNER_EPISODES_EPISODE_LOG_H
#define ACORN_LEARNER_EPISODES_EPISODE_LOG_H

#include <stdint.h>

#include "learner/episodes/numbers.h"

enum { EPISODE_LOG_ROWS = 1000 };

struct episode_row {
  int64_t time_us; /* of clock_now_us */
  int64_t step;
  double episode_return;
  double number[NUMBERS_MAX]; /* by the columns of numbers.h; NaN: none */
  uint32_t length;
  int environment;
  char actor[WIRE_MAX_PLAYER_NAME];
};

/* Of one role, in the order of their ends. */
struct episode_rows {
  const struct episode_row *row; /* (count) */
  int count;
  int64_t one_in; /* each is one of so many episodes */
};

struct episode_log;
struct progress_episode;

struct episode_log *episode_log_create(void);
void episode_log_destroy(struct episode_log *log);

/* `step`: of the run, not before those of earlier calls. Shapes: number (NUMBERS_MAX). */
void episode_log_add(struct episode_log *log, const struct progress_episode *episode, int64_t step,
                     const double *number);

/* What came since the last call, of training (rows[false]) and evaluation (rows[true]); valid until
 * the next call. Thread: main. */
void episode_log_take(struct episode_log *log, struct episode_rows rows[2]);

#endif
