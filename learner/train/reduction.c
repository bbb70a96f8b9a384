#include "learner/train/reduction.h"

#include "common/base/check.h"

void reduction_apply(const struct reduction *reduction, struct device *device, real *gradient,
                     size_t P, size_t num_sums) {
  (void)device, (void)gradient, (void)P, (void)num_sums;
  CHECK(reduction->learners == 1, "%d learners, and nothing that connects them",
        reduction->learners);
}
