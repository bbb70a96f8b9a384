#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/metrics/histogram.h"

struct fixture {
  struct histogram histogram;
  struct histogram_snapshot before, now, interval;
};

static int make(void **state) {
  *state = check_alloc(1, sizeof(struct fixture));
  return 0;
}

static int unmake(void **state) {
  free(*state);
  return 0;
}

// Any single value comes back within a bucket's half width, here from 1 us to 1000 s in both units.
static void test_resolution(void **state) {
  struct fixture *f = *state;
  for (double value = 1e-6; value <= 1.001e9; value *= 1.0173) {
    memset(f, 0, sizeof *f);
    histogram_record(&f->histogram, value);
    histogram_record(&f->histogram, value * 8); // so that the maximum does not give the answer away
    histogram_snapshot(&f->histogram, &f->now);
    double error = fabs(histogram_quantile(&f->now, 0.5) / value - 1);
    if (error > 1.0 / 64 + 1e-12) fail_msg("%g comes back %g off", value, error);
  }
}

static void test_quantiles(void **state) {
  struct fixture *f = *state;
  for (int i = 1; i <= 1000; i++) histogram_record(&f->histogram, i);
  histogram_snapshot(&f->histogram, &f->now);
  assert_int_equal(f->now.count, 1000);
  assert_true(histogram_mean(&f->now) == 500.5);
  assert_true(f->now.max == 1000);
  static const double ps[] = {0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 1};
  for (size_t i = 0; i < sizeof ps / sizeof ps[0]; i++) {
    double exact = ps[i] * 1000;
    assert_true(fabs(histogram_quantile(&f->now, ps[i]) - exact) <= exact / 64 + 1e-9);
  }
  assert_true(histogram_quantile(&f->now, 0) == histogram_quantile(&f->now, 0.001));
}

static void test_odd_values(void **state) {
  struct fixture *f = *state;
  histogram_snapshot(&f->histogram, &f->now);
  assert_true(isnan(histogram_quantile(&f->now, 0.5)));
  assert_true(isnan(histogram_mean(&f->now)));

  static const double zeros[] = {0, -3, NAN, -INFINITY};
  for (size_t i = 0; i < 4; i++) histogram_record(&f->histogram, zeros[i]);
  histogram_snapshot(&f->histogram, &f->now);
  assert_int_equal(f->now.count, 4);
  assert_true(f->now.sum == 0 && f->now.max == 0);
  assert_true(histogram_quantile(&f->now, 1) == 0);

  // Beyond the scale: the last bucket, but the true maximum.
  histogram_record(&f->histogram, 1e15);
  histogram_record(&f->histogram, 1e-300);
  histogram_snapshot(&f->histogram, &f->now);
  assert_int_equal(f->now.bucket[0], 5);
  assert_int_equal(f->now.bucket[HISTOGRAM_BUCKETS - 1], 1);
  assert_true(f->now.max == 1e15);
}

static void test_intervals(void **state) {
  struct fixture *f = *state;
  histogram_record(&f->histogram, 1000);
  histogram_snapshot(&f->histogram, &f->before);
  histogram_record(&f->histogram, 10);
  histogram_record(&f->histogram, 20);
  histogram_snapshot(&f->histogram, &f->now);
  histogram_difference(&f->interval, &f->now, &f->before);
  assert_int_equal(f->now.count, 3);
  assert_int_equal(f->interval.count, 2);
  assert_true(histogram_mean(&f->interval) == 15);
  assert_true(f->interval.max == 20);
  assert_true(fabs(histogram_quantile(&f->interval, 0.5) - 10) <= 10.0 / 64);
}

// A maximum that went with the snapshot before is made up for by the bucket's lower edge.
static void test_a_lost_maximum(void **state) {
  struct fixture *f = *state;
  histogram_record(&f->histogram, 100);
  histogram_snapshot(&f->histogram, &f->now);
  f->now.max = 0;
  histogram_difference(&f->interval, &f->now, &f->before);
  assert_true(f->interval.max > 100 * 31.0 / 32 && f->interval.max <= 100);
}

#define FIXED(test) cmocka_unit_test_setup_teardown(test, make, unmake)

int main(void) {
  const struct CMUnitTest tests[] = {
      FIXED(test_resolution), FIXED(test_quantiles),      FIXED(test_odd_values),
      FIXED(test_intervals),  FIXED(test_a_lost_maximum),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
