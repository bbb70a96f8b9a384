#include "common/base/thread.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "common/base/check.h"

enum { NAME_BYTES = 16, MOST_CHECKED = 64 };

#define HOW_TO_RAISE "raise the limit of memory (ulimit -v) or of processes (ulimit -u)"

static void *wait_for(void *barrier) {
  pthread_mutex_lock(barrier);
  pthread_mutex_unlock(barrier);
  return NULL;
}

enum status thread_check(int count, struct error *error) {
  CHECK(count <= MOST_CHECKED, "%d threads", count);
  pthread_mutex_t barrier = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread[MOST_CHECKED];
  int started = 0, failure = 0;
  // None ends before all have started.
  pthread_mutex_lock(&barrier);
  while (started < count && !failure) {
    failure = pthread_create(&thread[started], NULL, wait_for, &barrier);
    if (!failure) started++;
  }
  pthread_mutex_unlock(&barrier);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
  if (!failure) return STATUS_OK;
  return status_fail(error, STATUS_EXHAUSTED,
                     "cannot start %d threads here, only %d (%s); " HOW_TO_RAISE, count, started,
                     strerror(failure));
}

void thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument) {
  int error = pthread_create(thread, NULL, run, argument);
  if (error) check_give_up("cannot start a thread (%s): %s; " HOW_TO_RAISE, name, strerror(error));
  char cut[NAME_BYTES];
  snprintf(cut, sizeof(cut), "%.*s", NAME_BYTES - 1, name);
  pthread_setname_np(*thread, cut);
}

void thread_computes(void) {
  // Without effect on a kernel that refuses it; the thread runs all the same.
  struct sched_param param = {.sched_priority = 0};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &param);
}
