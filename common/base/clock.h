/* Monotonic time. Units: microseconds since an arbitrary start, the same for all threads of a
 * machine. Thread: any. */
#ifndef ACORN_COMMON_BASE_CLOCK_H
#define ACORN_COMMON_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_now_us(void);

/* CPU time used by this process and by the calling thread. Units: microseconds. */
int64_t clock_process_cpu_us(void);
int64_t clock_thread_cpu_us(void);

/* Sleeps at least that long; a signal does not shorten it. */
void clock_sleep_us(int64_t us);

/* How long this process has waited for others. Where all are stopped together (SIGSTOP, a job that
 * is suspended), the first to go on must not miss the others: the time between two looks counts as
 * 200 ms at most. Looks are less than that apart. */
struct clock_wait {
  int64_t looked_us, waited_us;
};
struct clock_wait clock_wait_begin(void);
int64_t clock_waited_us(struct clock_wait *wait); /* a look */

#endif
