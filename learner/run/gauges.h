/* The run's metrics, by their names in metrics.jsonl: made at start, filled from the parts that own
 * the figures. Thread: main. */
#ifndef ACORN_LEARNER_RUN_GAUGES_H
#define ACORN_LEARNER_RUN_GAUGES_H

#include "learner/run/run.h"

/* Makes the registry with all metrics of the run. */
void gauges_create(struct run *run);

/* Per second; trainer_busy is a share of the time, cpu_cores may be more than 1. */
struct gauges_rates {
  double env_steps, trained_steps, updates, trainer_busy, cpu_cores;
};

/* Copies what the parts know into it. */
void gauges_fill(struct run *run, const struct trainer_report *trainer,
                 const struct gauges_rates *rates, const struct progress_returns *train,
                 const struct progress_returns *eval);

#endif
