#include "learner/train/reduction.h"

/* The weight travels in the place of the gradient's norm, behind the sums. */
static void apply_on_device(const struct reduction *reduction, struct device *device,
                            real *gradient, size_t P, size_t num_sums, int windows) {
  real *sums = device_at(device, gradient, P), *weight = device_at(device, sums, num_sums);
  if (reduction->over_windows)
    device_fill(device, weight, (float)windows, 1);
  else
    device_copy(device, weight, sums, 1);
  const struct weigh_rule weigh = {
      .run = {.rows = P}, .x = gradient, .weight = weight, .y = gradient};
  device->ops->run_rule(device, RULE_weigh, &weigh.run);
  device_add_up(device, gradient, P + num_sums + 1);
  const struct unweigh_rule unweigh = {
      .run = {.rows = P}, .x = gradient, .weights = weight, .y = gradient};
  device->ops->run_rule(device, RULE_unweigh, &unweigh.run);
}

void reduction_apply(const struct reduction *reduction, struct device *device, real *gradient,
                     size_t P, size_t num_sums, int windows) {
  if (!reduction->peers) return;
  if (device->ops->asynchronous) {
    apply_on_device(reduction, device, gradient, P, num_sums, windows);
    return;
  }
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
