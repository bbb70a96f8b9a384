#include "actor/measure.h"

#include <stdio.h>

#include "common/base/decimal.h"

/* Below 16 us a bucket per microsecond, then eight per octave. */
static int bucket_of(int64_t us) {
  if (us < 16) return us < 0 ? 0 : (int)us;
  int octave = 63 - __builtin_clzll((uint64_t)us); // >= 4
  int bucket = 16 + (octave - 4) * 8 + (int)(us >> (octave - 3) & 7);
  return bucket < MEASURE_BUCKETS ? bucket : MEASURE_BUCKETS - 1;
}

/* The middle of a bucket. */
static int64_t bucket_us(int bucket) {
  if (bucket < 16) return bucket;
  int shift = (bucket - 16) / 8 + 1;
  int64_t low = (int64_t)(8 + (bucket - 16) % 8) << shift;
  return low + ((int64_t)1 << shift) / 2;
}

static void count(atomic_uint_fast64_t *counter, uint64_t by) {
  atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static uint64_t read_counter(atomic_uint_fast64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

void measure_message(struct measure *measure, int64_t wait_us, uint64_t steps, int64_t step_us) {
  count(&measure->messages, 1);
  count(&measure->steps, steps);
  count(&measure->step_us, (uint64_t)step_us);
  count(&measure->wait_us, (uint64_t)wait_us);
  count(&measure->wait[bucket_of(wait_us)], 1);
}

void measure_add(struct measure_sum *sum, struct measure *measure) {
  sum->messages += read_counter(&measure->messages);
  sum->steps += read_counter(&measure->steps);
  sum->step_us += read_counter(&measure->step_us);
  sum->wait_us += read_counter(&measure->wait_us);
  for (int i = 0; i < MEASURE_BUCKETS; i++) sum->wait[i] += read_counter(&measure->wait[i]);
}

void measure_subtract(struct measure_sum *sum, const struct measure_sum *before) {
  sum->messages -= before->messages;
  sum->steps -= before->steps;
  sum->step_us -= before->step_us;
  sum->wait_us -= before->wait_us;
  for (int i = 0; i < MEASURE_BUCKETS; i++) sum->wait[i] -= before->wait[i];
}

int64_t measure_wait_quantile_us(const struct measure_sum *sum, double q) {
  uint64_t total = 0, seen = 0;
  for (int i = 0; i < MEASURE_BUCKETS; i++) total += sum->wait[i];
  for (int i = 0; i < MEASURE_BUCKETS; i++) {
    seen += sum->wait[i];
    if (seen > 0 && (double)seen >= q * (double)total) return bucket_us(i);
  }
  return 0;
}

void measure_line(char *out, int bytes, const char *name, const struct measure_sum *sum) {
  double per_step = sum->steps ? (double)sum->step_us / (double)sum->steps : 0;
  double per_wait = sum->messages ? (double)sum->wait_us / (double)sum->messages : 0;
  locale_t before = decimal_begin();
  snprintf(out, (size_t)bytes,
           "actor name=%s messages=%llu steps=%llu step_us=%.3f wait_mean_us=%.1f wait_p50_us=%lld "
           "wait_p99_us=%lld",
           name, (unsigned long long)sum->messages, (unsigned long long)sum->steps, per_step,
           per_wait, (long long)measure_wait_quantile_us(sum, 0.5),
           (long long)measure_wait_quantile_us(sum, 0.99));
  decimal_end(before);
}
