/* The run's metrics, by their names in metrics.jsonl: made at start, filled from the parts that own
 * the figures. Thread: main. */
#ifndef ACORN_LEARNER_GAUGES_H
#define ACORN_LEARNER_GAUGES_H

#include "learner/run.h"

/* Makes the registry with all metrics of the run. */
void gauges_create(struct run *run);

/* Copies what the parts know into it. Rates: per second. */
void gauges_fill(struct run *run, const struct trainer_report *trainer, double env_steps_rate,
                 double trained_rate);

#endif
