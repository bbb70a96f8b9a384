#include "learner/experience/td_priority.h"

#include <math.h>

#include "common/base/step.h"

/* h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x. Source: Pohlen et al. 2018, proposition A.2. */
static double rescale(double x, double epsilon) {
  return epsilon > 0 ? copysign(sqrt(fabs(x) + 1) - 1, x) + epsilon * x : x;
}

static double rescale_back(double x, double epsilon) {
  if (!(epsilon > 0)) return x;
  double root = (sqrt(1 + 4 * epsilon * (fabs(x) + 1 + epsilon)) - 1) / (2 * epsilon);
  return copysign(root * root - 1, x);
}

static double learned_reward(const struct td_priority_config *config, float reward) {
  double scaled = (double)config->reward_scale * (double)reward,
         limit = (double)config->reward_clip;
  if (!(limit > 0)) return scaled;
  return scaled > limit ? limit : scaled < -limit ? -limit : scaled;
}

/* G_t. It ends with a terminated row, and with the value of a truncated one, of row T, or of the
 * row after n steps. */
static double n_step_return(const struct td_priority_config *config, const float *largest,
                            const float *reward, const uint8_t *flags, int t) {
  int end = config->n_steps < config->T - t ? t + config->n_steps : config->T;
  double sum = 0, discount = 1;
  for (int row = t + 1;; row++) {
    sum += discount * learned_reward(config, reward[row]);
    discount *= (double)config->discount;
    if (flags[row] & STEP_TERMINATED) return sum;
    if (row == end || flags[row] & STEP_TRUNCATED)
      return sum + discount * rescale_back((double)largest[row], (double)config->rescaling);
  }
}

float td_priority(const struct td_priority_config *config, const float *value, const float *largest,
                  const float *reward, const uint8_t *flags) {
  double total = 0, most = 0, eta = (double)config->eta;
  int count = 0;
  for (int t = 0; t < config->T && t < config->counted; t++) {
    if (flags[t] & STEP_TRUNCATED) continue;
    double g = n_step_return(config, largest, reward, flags, t);
    double error = fabs(rescale(g, (double)config->rescaling) - (double)value[t]);
    if (error > most) most = error;
    total += error; // NaN stays in it
    count++;
  }
  return count ? (float)(eta * most + (1 - eta) * total / count) : 0;
}
