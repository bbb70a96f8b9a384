/* How often a run looks at itself: often while it is young, so that a run of two seconds has a
 * curve, and less and less often, so that a run of weeks has no huge file. Thread: any (no state).
 */
#ifndef ACORN_LEARNER_REPORT_PACE_H
#define ACORN_LEARNER_REPORT_PACE_H

#include <stdint.h>

/* From one line of metrics to the next, so long after the start: a hundredth of that time, but at
 * least 50 ms and at most longest_us. */
int64_t pace_metrics_us(int64_t elapsed_us, int64_t longest_us);

/* From one tick of the control loop to the next: the same, but 20 to 250 ms. */
uint64_t pace_tick_ms(int64_t elapsed_us);

#endif
