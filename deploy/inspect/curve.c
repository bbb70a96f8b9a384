#include "deploy/inspect/curve.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/metrics/statistics.h"

double curve_interpolate(const struct run_log *log, double x) {
  const struct run_point *point = log->point;
  int low = 0, high = log->count - 1;
  if (x <= point[low].x) return point[low].y;
  if (x >= point[high].x) return point[high].y;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (point[middle].x <= x)
      low = middle;
    else
      high = middle;
  }
  double share = (x - point[low].x) / (point[high].x - point[low].x);
  return point[low].y + share * (point[high].y - point[low].y);
}

static void copy_points(struct curve *curve, const struct run_log *log) {
  curve->point = check_alloc((size_t)log->count, sizeof(*curve->point));
  curve->count = log->count;
  for (int i = 0; i < log->count; i++) {
    double y = log->point[i].y;
    curve->point[i] = (struct curve_point){log->point[i].x, y, y, y};
  }
}

static struct curve_point point_at(double x, const struct run_log *const *logs, int num_logs,
                                   double *values, enum curve_band band) {
  for (int i = 0; i < num_logs; i++) values[i] = curve_interpolate(logs[i], x);
  struct statistics s = statistics_of(values, num_logs);
  if (band == CURVE_RANGE) return (struct curve_point){x, s.mean, s.min, s.max};
  return (struct curve_point){x, s.mean, s.low, s.high};
}

enum status curve_create(struct curve *curve, const struct run_log *const *logs, int num_logs,
                         enum curve_band band, struct error *error) {
  *curve = (struct curve){0};
  if (num_logs == 1) {
    copy_points(curve, logs[0]);
    return STATUS_OK;
  }
  double first = -INFINITY, last = INFINITY;
  for (int i = 0; i < num_logs; i++) {
    first = fmax(first, logs[i]->point[0].x);
    last = fmin(last, logs[i]->point[logs[i]->count - 1].x);
  }
  if (first > last)
    return status_fail(error, STATUS_INVALID,
                       "the runs have no x in common: one begins at %g, another ends at %g", first,
                       last);
  curve->point = check_alloc(CURVE_POINTS, sizeof(*curve->point));
  curve->count = first < last ? CURVE_POINTS : 1;
  double *values = check_alloc((size_t)num_logs, sizeof(*values));
  for (int i = 0; i < curve->count; i++) {
    double x = i == CURVE_POINTS - 1 ? last : first + (last - first) * i / (CURVE_POINTS - 1);
    curve->point[i] = point_at(x, logs, num_logs, values, band);
  }
  free(values);
  return STATUS_OK;
}

void curve_deinit(struct curve *curve) {
  free(curve->point);
  *curve = (struct curve){0};
}
