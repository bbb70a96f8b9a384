#include "learner/train/entropy.h"

#include <math.h>

static const double MAX_EXPONENT = 20;

enum status entropy_cost_init(struct entropy_cost *cost, const struct actor_critic_options *options,
                              struct error *error) {
  double target = options->target_entropy, speed = options->entropy_adjustment_speed;
  *cost = (struct entropy_cost){.constant = options->entropy_cost,
                                .decay = options->entropy_cost_decay,
                                .target = target,
                                .speed = speed};
  if (target < 0 && target != -1)
    return status_fail(error, STATUS_INVALID,
                       "--target_entropy=%g: it must be 0 or more, or -1 for none", target);
  if (target < 0) return STATUS_OK;
  if (cost->decay > 0)
    return status_fail(error, STATUS_INVALID,
                       "--entropy_cost_decay=%g and --target_entropy=%g: --target_entropy sets the "
                       "entropy cost; give --target_entropy=-1 or --entropy_cost_decay=0",
                       cost->decay, target);
  if (!(cost->constant > 0))
    return status_fail(error, STATUS_INVALID,
                       "--target_entropy needs --entropy_cost above 0 to start from, not %g",
                       cost->constant);
  if (!(speed > 0))
    return status_fail(error, STATUS_INVALID, "--entropy_adjustment_speed=%g: it must be above 0",
                       speed);
  cost->p.value = log(cost->constant) / speed;
  return STATUS_OK;
}

double entropy_cost_now(const struct entropy_cost *cost, double share_left) {
  if (cost->target < 0) return cost->constant * (1 - cost->decay * (1 - share_left));
  return exp(cost->speed * cost->p.value);
}

double entropy_cost_loss(const struct entropy_cost *cost, double entropy) {
  return cost->target < 0 ? 0 : entropy_cost_now(cost, 1) * (entropy - cost->target);
}

void entropy_cost_adjust(struct entropy_cost *cost, double entropy, double learning_rate) {
  if (cost->target < 0) return;
  double limit = MAX_EXPONENT / cost->speed;
  scalar_adam_apply(&cost->p, cost->speed * entropy_cost_loss(cost, entropy), learning_rate);
  cost->p.value = fmax(-limit, fmin(limit, cost->p.value));
}
