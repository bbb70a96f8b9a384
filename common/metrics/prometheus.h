/* The metrics as text for Prometheus, in its exposition format 0.0.4.
 *
 * Names follow its rules: "train/episode_return" is acorn_train_episode_return; what counts ends in
 * _total, and nothing else does (loss/total: acorn_loss); microseconds become seconds
 * (batch/wait_us: acorn_batch_wait_seconds). A histogram is a summary: its quantiles are those of
 * the last closed interval, sum and count those since the start.
 * Upstream: learner/report/metrics_port.c. Thread: the one that reports. */
#ifndef ACORN_COMMON_METRICS_PROMETHEUS_H
#define ACORN_COMMON_METRICS_PROMETHEUS_H

#include <stdio.h>

#include "common/metrics/metrics.h"

/* Writes every metric, each with its HELP and TYPE. */
void prometheus_write(const struct metrics *metrics, FILE *out);

struct prometheus_label {
  const char *name, *value;
};

/* Writes a metric of the value 1 that says something by its labels. */
void prometheus_write_info(FILE *out, const char *name, const char *help,
                           const struct prometheus_label *labels, int num_labels);

#endif
