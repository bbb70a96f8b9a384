#include "common/base/clock.h"

#include <errno.h>
#include <time.h>

static int64_t read_us(clockid_t id) {
  struct timespec now;
  clock_gettime(id, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_now_us(void) {
  return read_us(CLOCK_MONOTONIC);
}

int64_t clock_process_cpu_us(void) {
  return read_us(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t clock_thread_cpu_us(void) {
  return read_us(CLOCK_THREAD_CPUTIME_ID);
}

void clock_sleep_us(int64_t us) {
  if (us <= 0) return;

  // An absolute deadline: a sleep that a signal cut short goes on where it was.
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t ns = until.tv_nsec + us % 1000000 * 1000;
  until.tv_sec += us / 1000000 + ns / 1000000000;
  until.tv_nsec = ns % 1000000000;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
  }
}

struct clock_wait clock_wait_begin(void) {
  return (struct clock_wait){.looked_us = clock_now_us()};
}

int64_t clock_waited_us(struct clock_wait *wait) {
  enum { MOST_US = 200 * 1000 };
  int64_t since_us = clock_now_us() - wait->looked_us;
  wait->looked_us += since_us;
  wait->waited_us += since_us < MOST_US ? since_us : MOST_US;
  return wait->waited_us;
}
