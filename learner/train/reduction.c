#include "learner/train/reduction.h"

void reduction_apply(const struct reduction *reduction, struct device *device, real *gradient,
                     size_t P, size_t num_sums, int windows) {
  if (!reduction->peers) return;
  double steps;
  size_t real_bytes = device->ops->real_bytes;
  const real *first = device_at_const(device, gradient, P);
  if (real_bytes == sizeof(double))
    steps = *(const double *)first;
  else
    steps = (double)*(const float *)first;
  peers_mean(reduction->peers, gradient, P, num_sums, real_bytes,
             reduction->over_windows ? windows : steps);
}
