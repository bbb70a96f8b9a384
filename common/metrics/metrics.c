#include "common/metrics/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/metrics/histogram.h"

// The part of a histogram metric that the reporting thread keeps.
struct intervals {
  struct histogram_snapshot before; // when the last interval was closed
  struct histogram_snapshot last;   // that interval
  struct histogram_snapshot now;    // scratch
};

struct metric {
  // Read-only after it was made.
  const char *name, *help;
  enum metric_kind kind;
  struct histogram *histogram; // METRIC_HISTOGRAM only
  struct intervals *intervals; // METRIC_HISTOGRAM only; reporting thread only
  // Any thread.
  _Atomic int64_t count; // METRIC_COUNTER
  _Atomic double value;  // METRIC_GAUGE
};

struct metrics {
  int capacity, count;
  struct metric *metric[]; // each in memory of its own, so that threads do not share cache lines
};

struct metrics *metrics_create(int capacity) {
  CHECK(capacity > 0, "a registry for %d metrics", capacity);
  struct metrics *metrics =
      check_alloc(1, sizeof *metrics + (size_t)capacity * sizeof(struct metric *));
  metrics->capacity = capacity;
  return metrics;
}

void metrics_destroy(struct metrics *metrics) {
  if (!metrics) return;
  for (int i = 0; i < metrics->count; i++) {
    free(metrics->metric[i]->histogram);
    free(metrics->metric[i]->intervals);
    free(metrics->metric[i]);
  }
  free(metrics);
}

struct metric *metrics_find(struct metrics *metrics, const char *name) {
  for (int i = 0; i < metrics->count; i++) {
    if (strcmp(metrics->metric[i]->name, name) == 0) return metrics->metric[i];
  }
  return NULL;
}

static struct metric *make(struct metrics *metrics, const char *name, const char *help,
                           enum metric_kind kind) {
  CHECK(metrics->count < metrics->capacity, "no room for metric %s after %d others", name,
        metrics->count);
  CHECK(!metrics_find(metrics, name), "two metrics are called %s", name);
  struct metric *metric = check_alloc(1, sizeof *metric);
  metric->name = name;
  metric->help = help;
  metric->kind = kind;
  atomic_init(&metric->value, NAN);
  metrics->metric[metrics->count++] = metric;
  return metric;
}

struct metric *metrics_counter(struct metrics *metrics, const char *name, const char *help) {
  return make(metrics, name, help, METRIC_COUNTER);
}

struct metric *metrics_gauge(struct metrics *metrics, const char *name, const char *help) {
  return make(metrics, name, help, METRIC_GAUGE);
}

struct metric *metrics_histogram(struct metrics *metrics, const char *name, const char *help) {
  struct metric *metric = make(metrics, name, help, METRIC_HISTOGRAM);
  metric->histogram = check_alloc(1, sizeof *metric->histogram);
  metric->intervals = check_alloc(1, sizeof *metric->intervals);
  return metric;
}

static void check_kind(const struct metric *metric, enum metric_kind kind) {
  CHECK(metric->kind == kind, "metric %s is of another kind", metric->name);
}

void metric_add(struct metric *counter, int64_t count) {
  if (!counter) return;
  check_kind(counter, METRIC_COUNTER);
  atomic_fetch_add_explicit(&counter->count, count, memory_order_relaxed);
}

void metric_set_total(struct metric *counter, int64_t total) {
  if (!counter) return;
  check_kind(counter, METRIC_COUNTER);
  atomic_store_explicit(&counter->count, total, memory_order_relaxed);
}

void metric_set(struct metric *gauge, double value) {
  if (!gauge) return;
  check_kind(gauge, METRIC_GAUGE);
  atomic_store_explicit(&gauge->value, value, memory_order_relaxed);
}

void metric_observe(struct metric *histogram, double value) {
  if (!histogram) return;
  check_kind(histogram, METRIC_HISTOGRAM);
  histogram_record(histogram->histogram, value);
}

double metric_value(const struct metric *metric) {
  if (!metric) return 0;
  CHECK(metric->kind != METRIC_HISTOGRAM, "metric %s has no single value", metric->name);
  if (metric->kind == METRIC_GAUGE)
    return atomic_load_explicit(&metric->value, memory_order_relaxed);
  return (double)atomic_load_explicit(&metric->count, memory_order_relaxed);
}

double metric_mean_since(const struct metric *histogram, struct metric_sum *since) {
  if (!histogram) return NAN;
  check_kind(histogram, METRIC_HISTOGRAM);

  // A look in between; a snapshot would take the interval's maximum away.
  struct metric_sum now;
  histogram_total(histogram->histogram, &now.count, &now.sum);
  uint64_t count = now.count - since->count;
  double sum = now.sum - since->sum;
  *since = now;
  return count > 0 ? sum / (double)count : NAN;
}

void metrics_close_interval(struct metrics *metrics) {
  for (int i = 0; i < metrics->count; i++) {
    struct metric *metric = metrics->metric[i];
    if (metric->kind != METRIC_HISTOGRAM) continue;
    struct intervals *intervals = metric->intervals;
    histogram_snapshot(metric->histogram, &intervals->now);
    histogram_difference(&intervals->last, &intervals->now, &intervals->before);
    intervals->before = intervals->now;
  }
}

static struct metric_view view_of(const struct metric *metric) {
  struct metric_view view = {.name = metric->name,
                             .help = metric->help,
                             .kind = metric->kind,
                             .mean = NAN,
                             .p50 = NAN,
                             .p99 = NAN,
                             .max = NAN};
  if (metric->kind != METRIC_HISTOGRAM) {
    view.total = atomic_load_explicit(&metric->count, memory_order_relaxed);
    view.value = metric_value(metric);
    return view;
  }

  const struct histogram_snapshot *last = &metric->intervals->last;
  view.total = (int64_t)metric->intervals->before.count;
  view.value = metric->intervals->before.sum;
  view.interval = last;
  view.count = (int64_t)last->count;
  if (last->count == 0) return view;
  view.mean = histogram_mean(last);
  view.p50 = histogram_quantile(last, 0.50);
  view.p99 = histogram_quantile(last, 0.99);
  view.max = last->max;
  return view;
}

void metrics_each(const struct metrics *metrics, metrics_visit visit, void *context) {
  for (int i = 0; i < metrics->count; i++) {
    struct metric_view view = view_of(metrics->metric[i]);
    visit(context, &view);
  }
}
