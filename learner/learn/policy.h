/* A policy: how actions are chosen from the network's outputs, for one kind of action space. Each
 * is a row of operations in a file of its own (categorical.c, normal.c); inference acts by it, and
 * an algorithm is paired with one.
 *
 * Upstream: learner/serve/inference.c, serve/acting.h, learn/algorithm.h.
 * Downstream: learner/device.
 * Thread: any (no state). */
#ifndef ACORN_LEARNER_LEARN_POLICY_H
#define ACORN_LEARNER_LEARN_POLICY_H

#include "learner/network/network.h"

/* What a choice depends on besides the network. Arrays (B), on the device. */
struct policy_rows {
  const float *uniform; /* (B, draws) in [0, 1); negative: the greedy action */
  const float *epsilon; /* probability of a random action; NULL where the policy has none */
};

struct policy {
  const char *name;
  const char *actions; /* the action spaces that it acts in: "discrete" */
  /* Outputs that the network's head has for it, besides the value; 0: not for this space. */
  int (*head_size)(const struct space *space);
  /* The head says what each action is worth (network_outputs.values), and may have several atoms
   * for each. A policy of this kind explores: policy_rows.epsilon is set. */
  bool action_values;
  /* The network gives no value beside it: the algorithm's own critics do. */
  bool without_value;
  /* Outputs behind the value that are parameters of their own, whatever the network reads: see
   * network_config.log_stds. NULL: none. */
  int (*log_stds)(const struct space *space);
  /* Random numbers that choosing an action takes; NULL: 1. */
  int (*draws)(const struct space *space);
  /* Floats that are kept with a step: log mu(a|x), or the values Q(x, a) and max Q(x, .). */
  int statistics;
  /* By operations of the device, which has all of the arrays. Shapes: action (B) of
   * space_action_bytes each, statistics (B, statistics). */
  void (*choose)(struct device *device, void *action, float *statistics,
                 const struct network_outputs *out, const struct policy_rows *rows, int B);
  /* On the host: what the environment gets for an action (space_action_bytes). NULL: the action as
   * it was chosen. */
  void (*send)(void *sent, const void *chosen, const struct space *space);
  /* Of given actions log pi(a|x) (B), and the policy's entropy (B), in nats. This and the next are
   * NULL where no algorithm asks for them. */
  void (*evaluate)(struct device *device, real *log_prob, real *entropy,
                   const struct network_outputs *out, const void *action, int B);
  /* d_head (rows out->stride apart; the value's column is left alone) = d_log_prob (B) * d
   * log_prob/d head + d_entropy (B) * d entropy/d head. */
  void (*backward)(struct device *device, real *d_head, const struct network_outputs *out,
                   const void *action, const real *d_log_prob, const real *d_entropy, int B);
  /* Through an action as `choose` made it of the same rows, whose uniform numbers are constants:
   * d_head = d_action (rows `stride` reals apart) * d action/d head + d_log_prob (B) * d
   * log_prob/d head. NULL: an action is no differentiable function of the head. */
  void (*chosen_backward)(struct device *device, real *d_head, const struct network_outputs *out,
                          const struct policy_rows *rows, const real *d_action, int stride,
                          const real *d_log_prob, int B);
};

/* `send` of the policies that keep the numbers of a box on the scale on which its bounds are -1 and
 * 1. Where bounds are no scale a number is the environment's own. What lies outside, be it by
 * rounding, is clipped. */
void policy_send_box(void *sent, const void *chosen, const struct space *space);

static inline int policy_draws(const struct policy *policy, const struct space *space) {
  return policy->draws ? policy->draws(space) : 1;
}

#endif
