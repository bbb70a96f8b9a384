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

#endif
