#include "learner/train/update_stats.h"

#include <math.h>

#include "common/rpc/wire.h"

/* Age of the actions in updates. The batch's versions and flags are in memory that the host reads
 * on every device. */
static double mean_lag(const struct train_batch *batch, int64_t version) {
  double sum = 0, steps = 0;
  for (int i = 0; i < batch->T * batch->N; i++) {
    if (batch->flags[i] & STEP_TRUNCATED) continue;
    sum += (double)(version - batch->version[i]);
    steps += 1;
  }
  return steps > 0 ? sum / steps : 0;
}

struct update_stats update_stats_read(const float scalar[UPDATE_SCALARS],
                                      const struct train_batch *batch, int64_t version) {
  double scale = scalar[SUM_STEPS] > 0 ? 1.0 / scalar[SUM_STEPS] : 0;
  return (struct update_stats){
      .policy_loss = scale * scalar[SUM_POLICY_LOSS],
      .baseline_loss = scale * scalar[SUM_BASELINE_LOSS],
      .entropy = scale * scalar[SUM_ENTROPY],
      .kl = scale * scalar[SUM_KL],
      .value = scale * scalar[SUM_VALUE],
      .reward = scale * scalar[SUM_REWARD],
      .rho_clipped = scale * scalar[SUM_RHO_CLIPPED],
      .gradient_norm = scalar[GRADIENT_NORM],
      .lag_updates = mean_lag(batch, version),
      .steps = (int64_t)scalar[SUM_STEPS],
  };
}

enum status update_stats_check(const struct update_stats *stats, int64_t number,
                               struct error *error) {
  /* Causes come before consequences. */
  const struct {
    const char *name;
    double value;
  } row[] = {
      {"mean reward", stats->reward},
      {"mean value", stats->value},
      {"mean entropy", stats->entropy},
      {"mean log-probability ratio", stats->kl},
      {"policy loss", stats->policy_loss},
      {"baseline loss", stats->baseline_loss},
      {"gradient's norm", stats->gradient_norm},
  };
  for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
    if (!isfinite(row[i].value))
      return status_fail(
          error, STATUS_CORRUPT,
          "update %lld: the %s is %g; the parameters are as before this update. Look for "
          "rewards or observations that are not finite, or lower --learning_rate (now %g)",
          (long long)number, row[i].name, row[i].value, stats->learning_rate);
  return STATUS_OK;
}
