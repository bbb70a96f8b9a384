#include "learner/report/pace.h"

enum { SHORTEST_LINE_US = 50000, SHORTEST_TICK_US = 20000, LONGEST_TICK_US = 250000 };

static int64_t hundredth(int64_t elapsed_us, int64_t shortest_us, int64_t longest_us) {
  int64_t us = elapsed_us / 100;
  if (us < shortest_us) us = shortest_us;
  return us < longest_us ? us : longest_us;
}

int64_t pace_metrics_us(int64_t elapsed_us, int64_t longest_us) {
  return hundredth(elapsed_us, SHORTEST_LINE_US, longest_us);
}

uint64_t pace_tick_ms(int64_t elapsed_us) {
  return (uint64_t)hundredth(elapsed_us, SHORTEST_TICK_US, LONGEST_TICK_US) / 1000;
}
