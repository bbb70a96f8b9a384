#include "learner/learn/exploration.h"

#include <math.h>
#include <stdbool.h>

#include "common/base/check.h"

static double per_environment(const struct exploration *exploration, int environment) {
  const double alpha = 7;
  int last = exploration->environments - 1;
  if (last < 1) return exploration->start;
  int i = environment < last ? environment : last;
  return pow(exploration->start, 1 + alpha * i / last);
}

static double linear(const struct exploration *exploration, int64_t steps_so_far) {
  if (steps_so_far >= exploration->steps) return exploration->end;
  double share = (double)steps_so_far / (double)exploration->steps;
  return exploration->start + (exploration->end - exploration->start) * share;
}

float exploration_epsilon(const struct exploration *exploration, int environment,
                          int64_t steps_so_far) {
  CHECK(environment >= 0 && steps_so_far >= 0, "environment %d, step %lld", environment,
        (long long)steps_so_far);
  switch (exploration->kind) {
    case EXPLORATION_PER_ENVIRONMENT:
      return (float)per_environment(exploration, environment);
    case EXPLORATION_LINEAR:
      return (float)linear(exploration, steps_so_far);
    case EXPLORATION_CONSTANT:
      return (float)exploration->start;
  }
  CHECK(false, "exploration of kind %d", (int)exploration->kind);
  return 0;
}

double exploration_mean_epsilon(const struct exploration *exploration, int64_t steps_so_far) {
  double sum = 0;
  for (int i = 0; i < exploration->environments; i++)
    sum += (double)exploration_epsilon(exploration, i, steps_so_far);
  return sum / exploration->environments;
}

float exploration_evaluation_epsilon(const struct exploration *exploration) {
  return (float)exploration->evaluation;
}
