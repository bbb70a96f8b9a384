/* The mean curve of several runs, with a band.
 *
 * The runs have their points at different x: each is interpolated linearly at CURVE_POINTS common
 * ones, evenly from where the last run begins to where the first one ends, so that every mean is
 * over all of them. A run that is alone keeps its own points.
 * Upstream: deploy/inspect/curves.c. Thread: any (no state). */
#ifndef ACORN_DEPLOY_INSPECT_CURVE_H
#define ACORN_DEPLOY_INSPECT_CURVE_H

#include "deploy/inspect/run_log.h"

enum { CURVE_POINTS = 201 };

enum curve_band {
  CURVE_RANGE,   /* from the lowest to the highest run */
  CURVE_INTERVAL /* 95 % confidence interval of the mean over runs (common/metrics/statistics.h) */
};

struct curve_point {
  double x, mean, low, high;
};

struct curve {
  struct curve_point *point; /* (count) */
  int count;
};

/* Of `num_logs` >= 1 runs with at least one point each. Owner: the caller, with curve_deinit, also
 * after an error. Errors: INVALID: one run ends before another begins. */
MUST_CHECK enum status curve_create(struct curve *curve, const struct run_log *const *logs,
                                    int num_logs, enum curve_band band, struct error *error);
void curve_deinit(struct curve *curve);

/* y at x, between the two points around it; of an end beyond it. */
double curve_interpolate(const struct run_log *log, double x);

#endif
