#include "common/metrics/statistics.h"

#include <math.h>

#include "common/base/check.h"

double statistics_t975(int degrees) {
  CHECK(degrees >= 1, "%d degrees of freedom", degrees);
  if (degrees == 1) return 12.706204736;
  if (degrees == 2) return 4.302652730;
  /* A series in 1 / degrees around the normal quantile z. */
  double z = 1.959963985, z2 = z * z, n = degrees;
  double g1 = z * (z2 + 1) / 4;
  double g2 = z * ((5 * z2 + 16) * z2 + 3) / 96;
  double g3 = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  double g4 = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;
  return z + (g1 + (g2 + (g3 + g4 / n) / n) / n) / n;
}

double statistics_half_width(double std, int count) {
  if (count < 2) return INFINITY;
  return statistics_t975(count - 1) * std / sqrt(count);
}

struct statistics statistics_of(const double *values, int count) {
  CHECK(count >= 1, "statistics of no number");
  struct statistics out = {.count = count, .min = values[0], .max = values[0]};
  long double sum = 0, squares = 0;
  for (int i = 0; i < count; i++) {
    sum += values[i];
    out.min = fmin(out.min, values[i]);
    out.max = fmax(out.max, values[i]);
  }
  out.mean = (double)(sum / count);
  for (int i = 0; i < count; i++)
    squares += ((long double)values[i] - out.mean) * ((long double)values[i] - out.mean);
  out.std = count > 1 ? (double)sqrtl(squares / (count - 1)) : 0;
  out.low = out.mean - statistics_half_width(out.std, count);
  out.high = out.mean + statistics_half_width(out.std, count);
  return out;
}
