/* Metrics interval: short in a young run, growing with its age, so that files stay small.
 *
 * A run of two seconds gets a curve, a run of weeks no huge file. Thread: any (no state). */
#ifndef ACORN_LEARNER_REPORT_PACE_H
#define ACORN_LEARNER_REPORT_PACE_H

#include <stdint.h>

/* From one line of metrics to the next, so long after the start: a hundredth of that time, but at
 * least 50 ms and at most longest_us. */
int64_t pace_metrics_us(int64_t elapsed_us, int64_t longest_us);

/* From one tick of the control loop to the next: the same, but 20 to 250 ms. */
uint64_t pace_tick_ms(int64_t elapsed_us);

#endif
