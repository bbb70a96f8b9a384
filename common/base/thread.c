#include "common/base/thread.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "common/base/check.h"

enum { NAME_BYTES = 16 };

void thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument) {
  int error = pthread_create(thread, NULL, run, argument);
  if (error) thread_give_up(name, error);
  char cut[NAME_BYTES];
  snprintf(cut, sizeof(cut), "%.*s", NAME_BYTES - 1, name);
  pthread_setname_np(*thread, cut);
}

void thread_give_up(const char *name, int error) {
  check_give_up(
      "cannot start a thread (%s): %s; raise the limit of memory (ulimit -v) or of processes "
      "(ulimit -u), whichever is set",
      name, strerror(error));
}

void thread_computes(void) {
  // Without effect on a kernel that refuses it; the thread runs all the same.
  struct sched_param param = {.sched_priority = 0};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &param);
}
