/* A histogram of positive numbers over many decades: 32 buckets to an octave, from 2^-20 to 2^30.
 * So a time fits in seconds (1 us to 1000 s and far beyond) as well as in microseconds, and so do
 * fractions and counts.
 *
 * Recording is a few relaxed atomic additions; nothing is ever reset, so that no thread waits for
 * another. A reader takes a snapshot and subtracts the one before: what is left is the interval
 * between them.
 * Invariant: a quantile is at most 1/64 (1.6 %) away from the value that was recorded.
 * Thread: histogram_record any; the rest only on snapshots, which belong to one thread. */
#ifndef ACORN_COMMON_METRICS_HISTOGRAM_H
#define ACORN_COMMON_METRICS_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum {
  HISTOGRAM_LOW_EXPONENT = -20,
  HISTOGRAM_HIGH_EXPONENT = 30,
  HISTOGRAM_BUCKETS = (HISTOGRAM_HIGH_EXPONENT - HISTOGRAM_LOW_EXPONENT) * 32,
};

/* The least value of bucket `bucket` in 0..HISTOGRAM_BUCKETS, which is the end of the one before;
 * 0 for the first, where everything below the scale counts. */
double histogram_edge(int bucket);

/* Zeroed memory is an empty histogram. */
struct histogram {
  _Atomic uint64_t bucket[HISTOGRAM_BUCKETS];
  _Atomic uint64_t count;
  _Atomic double sum;
  _Atomic double max; /* since the last snapshot */
};

/* Plain data; zeroed memory is an empty one. */
struct histogram_snapshot {
  uint64_t bucket[HISTOGRAM_BUCKETS];
  uint64_t num_bucketed; /* what the buckets add up to: the quantiles' count */
  uint64_t count;        /* what `sum` is the sum of: the mean's count */
  double sum;
  double max; /* of the interval; 0 if nothing was recorded */
};

/* Counts one value. What lies below the lowest bucket (zero too) counts there, what lies above the
 * highest there; sum and max stay exact. Negative numbers and NaN count as 0. */
void histogram_record(struct histogram *histogram, double value);

/* Takes everything recorded since the histogram was empty, except `max`, which starts anew. */
void histogram_snapshot(struct histogram *histogram, struct histogram_snapshot *snapshot);

/* Count and sum that belong together, but for values that are being recorded at this moment. */
void histogram_total(const struct histogram *histogram, uint64_t *count, double *sum);

/* interval = now - before. `max` is that of `now`. */
void histogram_difference(struct histogram_snapshot *interval, const struct histogram_snapshot *now,
                          const struct histogram_snapshot *before);

/* The value that a fraction p (0..1) of those recorded does not exceed; NaN if there are none. */
double histogram_quantile(const struct histogram_snapshot *snapshot, double p);

/* NaN if nothing was recorded. */
double histogram_mean(const struct histogram_snapshot *snapshot);

#endif
