#include "common/metrics/histogram.h"

#include <math.h>
#include <string.h>

enum { SUB_BUCKET_BITS = 5, MANTISSA_BITS = 52, EXPONENT_BIAS = 1023 };

// The first bucket, counted from the smallest positive number.
static const int64_t first_bucket = (int64_t)(EXPONENT_BIAS + HISTOGRAM_LOW_EXPONENT)
                                    << SUB_BUCKET_BITS;

// Exponent and upper mantissa bits of a positive double are its place on a scale that is linear
// within an octave.
static int bucket_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  int64_t place = (int64_t)(bits >> (MANTISSA_BITS - SUB_BUCKET_BITS)) - first_bucket;
  if (place < 0) return 0;
  return place < HISTOGRAM_BUCKETS ? (int)place : HISTOGRAM_BUCKETS - 1;
}

// The value that lies `part` (0 its lower edge, 0.5 its middle) of the way through a bucket.
static double value_in(int bucket, double part) {
  int octave = bucket >> SUB_BUCKET_BITS, sub = bucket & ((1 << SUB_BUCKET_BITS) - 1);
  return ldexp(1 + (sub + part) / (1 << SUB_BUCKET_BITS), HISTOGRAM_LOW_EXPONENT + octave);
}

double histogram_edge(int bucket) {
  return bucket == 0 ? 0 : value_in(bucket, 0);
}

static void add(_Atomic double *sum, double value) {
  double old = atomic_load_explicit(sum, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(sum, &old, old + value, memory_order_relaxed,
                                                memory_order_relaxed)) {
  }
}

static void raise_to(_Atomic double *max, double value) {
  double old = atomic_load_explicit(max, memory_order_relaxed);
  while (old < value && !atomic_compare_exchange_weak_explicit(
                            max, &old, value, memory_order_relaxed, memory_order_relaxed)) {
  }
}

void histogram_record(struct histogram *histogram, double value) {
  if (!(value > 0)) value = 0;
  atomic_fetch_add_explicit(&histogram->bucket[bucket_of(value)], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&histogram->count, 1, memory_order_relaxed);
  add(&histogram->sum, value);
  raise_to(&histogram->max, value);
}

void histogram_total(const struct histogram *histogram, uint64_t *count, double *sum) {
  // A reader that loses its core between two loads would pair an old count with a new sum.
  enum { TRIES = 8 };
  for (int i = 0; i < TRIES; i++) {
    *sum = atomic_load(&histogram->sum);
    *count = atomic_load(&histogram->count);
    if (atomic_load(&histogram->sum) == *sum) return;
  }
}

void histogram_snapshot(struct histogram *histogram, struct histogram_snapshot *snapshot) {
  // Quantiles are whole however much is recorded meanwhile: their count is that of the buckets
  // read.
  snapshot->num_bucketed = 0;
  for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
    snapshot->bucket[i] = atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);
    snapshot->num_bucketed += snapshot->bucket[i];
  }
  histogram_total(histogram, &snapshot->count, &snapshot->sum);
  snapshot->max = atomic_exchange_explicit(&histogram->max, 0, memory_order_relaxed);
}

void histogram_difference(struct histogram_snapshot *interval, const struct histogram_snapshot *now,
                          const struct histogram_snapshot *before) {
  interval->num_bucketed = now->num_bucketed - before->num_bucketed;
  interval->count = now->count - before->count;
  interval->sum = now->sum - before->sum;
  interval->max = now->max;
  for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
    interval->bucket[i] = now->bucket[i] - before->bucket[i];
    // A value that was half recorded at the snapshot before has left its maximum there.
    if (interval->bucket[i] > 0) interval->max = fmax(interval->max, histogram_edge(i));
  }
}

double histogram_quantile(const struct histogram_snapshot *snapshot, double p) {
  if (snapshot->num_bucketed == 0) return NAN;

  // The rank of the wanted value among all, from 1.
  double rank = fmax(1, ceil(p * (double)snapshot->num_bucketed));
  uint64_t seen = 0;
  for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
    seen += snapshot->bucket[i];
    // The middle of a bucket may lie above the largest value in it.
    if (seen > 0 && (double)seen >= rank) return i == 0 ? 0 : fmin(value_in(i, 0.5), snapshot->max);
  }
  return snapshot->max;
}

double histogram_mean(const struct histogram_snapshot *snapshot) {
  return snapshot->count > 0 ? snapshot->sum / (double)snapshot->count : NAN;
}
