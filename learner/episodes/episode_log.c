#include "learner/episodes/episode_log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/episodes/progress.h"

/* Every stride-th of the episodes of one role. */
struct part {
  struct episode_row *row; /* (EPISODE_LOG_ROWS) */
  int count;
  int64_t stride, seen;
};

struct episode_log {
  pthread_mutex_t lock;
  struct part part[2][2]; /* half, role */
  int filling;            /* guarded by lock: that half; the other one is main's */
};

struct episode_log *episode_log_create(void) {
  struct episode_log *log = check_alloc(1, sizeof(*log));
  pthread_mutex_init(&log->lock, NULL);
  for (int i = 0; i < 4; i++) {
    struct part *part = &log->part[i / 2][i % 2];
    part->row = check_alloc(EPISODE_LOG_ROWS, sizeof(*part->row));
    part->stride = 1;
  }
  return log;
}

void episode_log_destroy(struct episode_log *log) {
  if (!log) return;
  for (int i = 0; i < 4; i++) free(log->part[i / 2][i % 2].row);
  pthread_mutex_destroy(&log->lock);
  free(log);
}

/* Keeps every second row. The number of the next episode is a multiple of the new stride. */
static void thin(struct part *part) {
  _Static_assert(EPISODE_LOG_ROWS % 2 == 0, "the rows that stay are evenly apart");
  part->count /= 2;
  for (int i = 1; i < part->count; i++) part->row[i] = part->row[2 * i];
  part->stride *= 2;
}

/* The row for the next episode; NULL: it is left out. */
static struct episode_row *next_row(struct part *part) {
  if (part->seen++ % part->stride) return NULL;
  if (part->count == EPISODE_LOG_ROWS) thin(part);
  return &part->row[part->count++];
}

void episode_log_add(struct episode_log *log, const struct progress_episode *episode, int64_t step,
                     const double *number) {
  pthread_mutex_lock(&log->lock);
  struct episode_row *row = next_row(&log->part[log->filling][episode->eval]);
  if (row) {
    row->time_us = clock_now_us();
    row->step = step;
    row->episode_return = episode->episode_return;
    row->length = episode->length;
    row->environment = episode->environment;
    memcpy(row->number, number, sizeof(row->number));
    snprintf(row->actor, sizeof(row->actor), "%s", episode->actor);
  }
  pthread_mutex_unlock(&log->lock);
}

void episode_log_take(struct episode_log *log, struct episode_rows rows[2]) {
  pthread_mutex_lock(&log->lock);
  struct part *full = log->part[log->filling];
  log->filling = !log->filling;
  for (int role = 0; role < 2; role++) {
    struct part *empty = &log->part[log->filling][role];
    empty->count = 0;
    empty->seen = 0;
    empty->stride = 1;
  }
  pthread_mutex_unlock(&log->lock);
  for (int role = 0; role < 2; role++)
    rows[role] = (struct episode_rows){full[role].row, full[role].count, full[role].stride};
}
