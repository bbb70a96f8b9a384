#include "learner/pace.h"

enum { SHORTEST_US = 20000, LONGEST_TICK_US = 250000, LINES_PER_E = 100 };

int64_t pace_metrics_us(int64_t elapsed_us, int64_t longest_us) {
  int64_t us = elapsed_us / LINES_PER_E;
  if (us < SHORTEST_US) us = SHORTEST_US;
  return us < longest_us ? us : longest_us;
}

uint64_t pace_tick_ms(int64_t elapsed_us) {
  return (uint64_t)pace_metrics_us(elapsed_us, LONGEST_TICK_US) / 1000;
}
