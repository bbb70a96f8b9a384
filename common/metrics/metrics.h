/* Numbers about the run that any thread may update and one thread reports.
 *
 * Upstream: every module of the learner. Downstream: metrics.jsonl here; other writers go over the
 * registry with metrics_each. Metrics are made at start, or when their names become known;
 * otherwise nothing here allocates except the writers. A name is a path of lower-case words with
 * the unit last where there is one: "speed/env_steps_per_second", "serve/batch_wait_us",
 * "batch/fill". Histograms are reported per interval, the time from one metrics_close_interval to
 * the next.
 * Invariant: an update is relaxed atomic arithmetic; no update ever waits for a reader, a lock or
 * memory.
 * Thread: making metrics, closing intervals and reporting: one thread; the updates and
 * metric_value: any. */
#ifndef ACORN_COMMON_METRICS_METRICS_H
#define ACORN_COMMON_METRICS_METRICS_H

#include <stdint.h>
#include <stdio.h>

struct histogram_snapshot;
struct metrics;
struct metric;

enum metric_kind {
  METRIC_COUNTER,   /* a whole number that only grows: metric_add */
  METRIC_GAUGE,     /* the newest value: metric_set */
  METRIC_HISTOGRAM, /* the distribution of an interval's values: metric_observe */
};

/* What a writer sees of one metric. Read-only, valid during the visit. A number that there is none
 * of is NaN. */
struct metric_view {
  const char *name;
  const char *help;
  enum metric_kind kind;
  int64_t total; /* counter: its value; histogram: values since the start */
  double value;  /* counter and gauge: its value; histogram: sum of the values since the start */
  /* histogram: the last closed interval */
  int64_t count;
  double mean, p50, p99, max;
  const struct histogram_snapshot *interval; /* NULL unless it is a histogram */
};

/* An empty registry with room for `capacity` metrics. Owner: the caller, with metrics_destroy,
 * which frees the metrics. */
struct metrics *metrics_create(int capacity);
void metrics_destroy(struct metrics *metrics);

/* Makes a metric. `name` and `help` (one line) are kept, not copied: string literals, or the
 * caller's for the registry's life. A name that
 * is there already, and one metric too many, are CHECKs. Owner: the registry. */
struct metric *metrics_counter(struct metrics *metrics, const char *name, const char *help);
struct metric *metrics_gauge(struct metrics *metrics, const char *name, const char *help);
struct metric *metrics_histogram(struct metrics *metrics, const char *name, const char *help);

/* The metric with that name; NULL if there is none. */
struct metric *metrics_find(struct metrics *metrics, const char *name);

/* The parts of a histogram that are scalars: the mean by the metric's own name. X(member of the
 * view, what is added to the name) */
#define METRIC_HISTOGRAM_SCALARS(X) \
  X(mean, "")                       \
  X(p50, "/p50")                    \
  X(p99, "/p99")                    \
  X(max, "/max")
enum { METRIC_NAME_BYTES = 128 };

/* Updates. A NULL metric is allowed and does nothing, so that a module runs without metrics. */
void metric_add(struct metric *counter, int64_t count);
/* A count that is kept elsewhere. */
void metric_set_total(struct metric *counter, int64_t total);
void metric_set(struct metric *gauge, double value);
void metric_observe(struct metric *histogram, double value);

/* Newest value of a counter or a gauge; NaN for a gauge that was never set, 0 for NULL. */
double metric_value(const struct metric *metric);

/* A histogram at some moment: zeros at the start. */
struct metric_sum {
  uint64_t count;
  double sum;
};

/* Mean of what a histogram has got since *since, which becomes now: for readers with an interval of
 * their own. NaN if nothing came, or for NULL. Thread: any. */
double metric_mean_since(const struct metric *histogram, struct metric_sum *since);

/* Ends the interval of every histogram and begins the next. */
void metrics_close_interval(struct metrics *metrics);

/* Calls `visit` for every metric, in the order in which they were made. */
typedef void (*metrics_visit)(void *context, const struct metric_view *view);
void metrics_each(const struct metrics *metrics, metrics_visit visit, void *context);

/* Closes the interval and writes one line of JSON: "step", "seconds", then every metric by its
 * name, a histogram as NAME (the mean), NAME/p50, NAME/p99 and NAME/max. NaN and infinity become
 * null. The line is flushed.
 * Errors: 0, or -1 with errno set where the file cannot be written. */
int metrics_write_json(struct metrics *metrics, int64_t step, double seconds, FILE *file);

#endif
