/* Measures how long one side of a source has waited for the other. Owner: the
 * source, under its lock. */
#ifndef ACORN_LEARNER_EXPERIENCE_WAIT_TIME_H
#define ACORN_LEARNER_EXPERIENCE_WAIT_TIME_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/metrics/metrics.h"

struct wait_time {
  int64_t total_us;
  int64_t since_us; /* when the present one began; 0: no wait */
};

/* Before each time that the side waits. */
static inline void wait_time_begin(struct wait_time *wait) {
  if (!wait->since_us) wait->since_us = clock_now_us();
}

/* When it goes on; metric, of each wait, may be NULL. */
static inline void wait_time_end(struct wait_time *wait, struct metric *metric) {
  if (!wait->since_us) return;
  int64_t waited_us = clock_now_us() - wait->since_us;
  metric_observe(metric, (double)waited_us);
  wait->total_us += waited_us;
  wait->since_us = 0;
}

/* When so much will have passed; INT64_MAX stays. */
static inline int64_t wait_time_end_us(int64_t wait_us) {
  return wait_us == INT64_MAX ? wait_us : clock_now_us() + wait_us;
}

/* For the condition, under its lock, or until then. False: that is over. */
static inline bool wait_time_for(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t end_us) {
  const struct timespec end = {end_us / 1000000, end_us % 1000000 * 1000};
  if (end_us == INT64_MAX) return pthread_cond_wait(condition, lock) == 0;
  return pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, &end) == 0;
}

/* All so far, the present one too. */
static inline int64_t wait_time_total(const struct wait_time *wait, int64_t now_us) {
  return wait->total_us + (wait->since_us ? now_us - wait->since_us : 0);
}

#endif
