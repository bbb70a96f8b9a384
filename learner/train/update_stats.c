#include "learner/train/update_stats.h"

#include <math.h>
#include <stdio.h>

#include "common/base/step.h"

double update_stats_lag(const struct train_batch *batch, int64_t version) {
  double sum = 0, steps = 0;
  for (int n = 0; n < batch->N; n++)
    for (int t = 0; t < batch->T; t++) {
      uint64_t stamp = *train_batch_stamp(batch, t, n);
      if (step_stamp_flags(stamp) & STEP_TRUNCATED) continue;
      sum += (double)(version - step_stamp_version(stamp));
      steps += 1;
    }
  return steps > 0 ? sum / steps : 0;
}

struct update_stats update_stats_read(const double *sums, double norm,
                                      const struct algorithm *algorithm) {
  struct update_stats stats = {.gradient_norm = norm, .steps = (int64_t)sums[LOSS_STEPS]};
  double scale = sums[LOSS_STEPS] > 0 ? 1.0 / sums[LOSS_STEPS] : 0;
  for (int i = 0; i < algorithm->num_sums; i++) stats.losses.sum[i] = sums[i];
  for (int i = 0; i < algorithm->num_terms; i++) {
    int sum = algorithm->terms[i].sum;
    if (sum >= 0) stats.losses.term[i] = scale * sums[sum];
  }
  return stats;
}

static enum status not_finite(const char *name, double value, const struct update_stats *stats,
                              int64_t number, int pass, struct error *error) {
  char which[32] = "this update";
  if (pass > 0) snprintf(which, sizeof(which), "its pass %d", pass + 1);
  return status_fail(error, STATUS_CORRUPT,
                     "update %lld: the %s is %g; the parameters are as before %s. Look for rewards "
                     "or observations that are not finite, or lower --learning_rate (now %g)",
                     (long long)number, name, value, which, stats->learning_rate);
}

enum status update_stats_check(const struct update_stats *stats, const struct algorithm *algorithm,
                               int64_t number, int pass, struct error *error) {
  for (int i = 0; i < algorithm->num_terms; i++) {
    const char *name = algorithm->terms[i].checked;
    double value = stats->losses.term[i];
    if (name && !isfinite(value)) return not_finite(name, value, stats, number, pass, error);
  }
  if (!isfinite(stats->gradient_norm))
    return not_finite("gradient's norm", stats->gradient_norm, stats, number, pass, error);
  return STATUS_OK;
}
