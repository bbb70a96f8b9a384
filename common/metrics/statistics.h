/* Mean, spread and the confidence interval of a mean, of a handful of numbers. Thread: any. */
#ifndef ACORN_COMMON_METRICS_STATISTICS_H
#define ACORN_COMMON_METRICS_STATISTICS_H

/* std is the sample's (divided by n - 1; 0 of one number). low, high: the 95 % confidence interval
 * of the mean; of one number, all numbers: -infinity, infinity. */
struct statistics {
  int count;
  double mean, std, min, max, low, high;
};

/* Of `count` >= 1 numbers. */
struct statistics statistics_of(const double *values, int count);

/* Half the width of the 95 % confidence interval of a mean of `count` numbers with that sample
 * standard deviation: t * std / sqrt(count), t being the 0.975 quantile of Student's distribution
 * with count - 1 degrees of freedom. It is exact for normal numbers, and near for the mean of 30 or
 * more of anything. Infinite for one number.
 * Source: Student 1908. */
double statistics_half_width(double std, int count);

/* The 0.975 quantile of Student's t with so many degrees of freedom; off by less than 0.005.
 * Source: closed forms for 1 and 2; else Abramowitz and Stegun 1964, 26.7.5. */
double statistics_t975(int degrees);

#endif
