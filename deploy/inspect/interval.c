/* The statistics of the numbers on stdin, one a line: "count=5 mean=... std=... min=... max=...
 * low=... high=...", std the sample's, low and high the 95 % confidence interval of the mean. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/process.h"
#include "common/metrics/statistics.h"

enum { MAX_NUMBERS = 100000, EXIT_USAGE = 2 };

int main(void) {
  process_ignore_file_limit();
  static double values[MAX_NUMBERS];
  int count = 0;
  while (count < MAX_NUMBERS && scanf("%lf", &values[count]) == 1) count++;
  if (count == 0 || !feof(stdin)) {
    fprintf(stderr, "interval: 1 to %d numbers are needed on stdin\n", MAX_NUMBERS);
    return EXIT_USAGE;
  }
  struct statistics s = statistics_of(values, count);
  printf("count=%d mean=%.9g std=%.9g min=%.9g max=%.9g low=%.9g high=%.9g\n", s.count, s.mean,
         s.std, s.min, s.max, s.low, s.high);
  struct error error;
  if (process_flush(&error) == STATUS_OK) return EXIT_SUCCESS;
  fprintf(stderr, "interval: %s\n", error.text);
  return EXIT_FAILURE;
}
