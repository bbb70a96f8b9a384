/* Histograms of a worker's time: waiting for actions, stepping environments.
 * Buckets are an eighth of an octave wide (within 9 %).
 * Upstream: actor/worker.c writes, actor/main.c reads. Thread: one writes, any reads (each counter
 * is atomic; a reader may see a message half counted). */
#ifndef ACORN_ACTOR_MEASURE_H
#define ACORN_ACTOR_MEASURE_H

#include <stdatomic.h>
#include <stdint.h>

enum { MEASURE_BUCKETS = 256 };

/* Counters since the start. Plain data, zero at the start. */
struct measure {
  atomic_uint_fast64_t messages;
  atomic_uint_fast64_t steps;   /* of environments */
  atomic_uint_fast64_t step_us; /* all of them together */
  atomic_uint_fast64_t wait_us;
  atomic_uint_fast64_t wait[MEASURE_BUCKETS]; /* messages by their wait */
};

/* What a reader has summed up. Plain data. */
struct measure_sum {
  uint64_t messages, steps, step_us, wait_us;
  uint64_t wait[MEASURE_BUCKETS];
};

/* Counts one message: it waited `wait_us`, then `steps` environment steps took `step_us`. */
void measure_message(struct measure *measure, int64_t wait_us, uint64_t steps, int64_t step_us);

/* Adds a worker's counters to `sum`; subtracts what `before` had. */
void measure_add(struct measure_sum *sum, struct measure *measure);
void measure_subtract(struct measure_sum *sum, const struct measure_sum *before);

/* The wait that a fraction q of the messages did not exceed. Units: microseconds; 0 if there were
 * none. */
int64_t measure_wait_quantile_us(const struct measure_sum *sum, double q);

/* Writes "actor name=... messages=... steps=... step_us=... wait_mean_us=... wait_p50_us=...
 * wait_p99_us=...": step_us is the mean time of one environment step. */
void measure_line(char *out, int bytes, const char *name, const struct measure_sum *sum);

#endif
