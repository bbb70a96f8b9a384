/* What the actor-critic algorithms share: one network with a policy and a value, targets from a
 * trace over the rewards, and the sum of policy, value, entropy and KL losses.
 *
 * Upstream: vtrace.c, a2c.c, ppo.c. Downstream: learner/network, learner/device.
 * Thread: the trainer's. Source: Espeholt et al. 2018 (IMPALA), section 4.2; Mnih et al. 2016. */
#ifndef ACORN_LEARNER_LEARN_ACTOR_CRITIC_H
#define ACORN_LEARNER_LEARN_ACTOR_CRITIC_H

#include "learner/learn/algorithm.h"
#include "learner/learn/curiosity.h"
#include "learner/learn/value_targets.h"

/* Where the terms that all of them have stand in an algorithm's list. */
enum actor_critic_term {
  TERM_REWARD,
  TERM_VALUE,
  TERM_ENTROPY,
  TERM_KL,
  TERM_POLICY_LOSS,
  TERM_BASELINE_LOSS,
  TERM_ENTROPY_LOSS,
  TERM_ENTROPY_COST,
  TERM_EXPLAINED_VARIANCE,
  ACTOR_CRITIC_NUM_TERMS
};

/* clang-format off */
#define ACTOR_CRITIC_TERMS                                                                         \
  {"train/reward", "mean reward per step", "mean reward", SUM_REWARD},                             \
  {"train/value", "mean value estimate", "mean value", SUM_VALUE},                                 \
  {"policy/entropy", "mean entropy of the policy, in nats", "mean entropy", SUM_ENTROPY},          \
  {"policy/kl", "KL(acting policy, policy), estimated as ratio - 1 - log ratio",                   \
   "mean KL divergence", SUM_KL},                                                          \
  {"loss/policy", "policy gradient loss", "policy loss", SUM_POLICY_LOSS},                         \
  {"loss/baseline", "value loss, unweighted", "baseline loss", SUM_BASELINE_LOSS},                 \
  {"loss/entropy", "entropy bonus, weighted: what it adds to the total", NULL, -1},                \
  {"policy/entropy_cost", "weight of the entropy bonus", NULL, -1},                                \
  {"loss/explained_variance",                                                                      \
   "share of the variance of the value's targets that the value explains", NULL, -1}
/* clang-format on */

struct actor_critic {
  struct curiosity *curiosity; /* or NULL. First: see curiosity_parameters */
  struct device *device;       /* read-only after create, as is all up to `out` */
  const struct policy *policy;
  const struct algorithm_options *options;
  enum trace_kind trace;
  enum loss_reduction reduction;
  size_t P; /* own parameters included */
  int T, N;
  int stride;                          /* of the head's rows */
  struct network_workspace *workspace; /* (T+1)*N rows */
  struct value_targets targets;

  /* of one gradient; arrays are device memory */
  struct network_outputs out;
  real *value;              /* (T+1, N) */
  real *log_prob, *entropy; /* (T, N), and so all but the last */
  real *vs, *advantage;
  real *d_log_prob, *d_entropy, *d_value;
  real *d_head; /* (T*N, stride) */
};

/* trace: how rewards and values become targets and advantages. */
struct actor_critic *actor_critic_create(const struct learning *learning, enum trace_kind trace);

/* The rule of the losses over the steps of a trace, with its targets and the policy's entropy: all
 * but outputs, sums, costs, schedule, reduction and the deviations. */
struct actor_critic_rule actor_critic_rule(const struct device_trace *trace, const real *vs,
                                           const real *advantage, const real *entropy);

/* The two halves of a gradient, between which an algorithm may add to d_log_prob, d_entropy and
 * d_value what losses of its own contribute. sums: (ACTOR_CRITIC_SUMS), on the device. */
void actor_critic_losses(struct actor_critic *self, real *sums, const real *params,
                         const struct train_batch *batch, const struct device_inputs *inputs,
                         const struct device_schedule *schedule);
void actor_critic_backward(struct actor_critic *self, real *gradient, const real *params,
                           const struct train_batch *batch, const struct device_inputs *inputs);

/* Operations of struct algorithm; self: a struct actor_critic. */
void actor_critic_destroy(void *self);
void actor_critic_gradient(void *self, real *gradient, const struct parameters *params,
                           const struct train_batch *batch, const struct device_inputs *inputs,
                           const struct device_schedule *schedule, int pass);
void actor_critic_settle(void *self, const struct settled *settled);
void actor_critic_complete(const void *self, struct losses *losses,
                           const struct schedule *schedule);

/* The terms that are no means of sums, the entropy and the total. losses: with the sums of the rule
 * actor_critic, or of one that begins alike, and their means. */
void actor_critic_total(struct losses *losses, const struct actor_critic_options *own,
                        const struct schedule *schedule);

#endif
